// SPDX-License-Identifier: Apache-2.0
//! Wraps a service: counts the bytes of requests and refuses those beyond the limits before they are received.

use std::convert::Infallible;
use std::future::{Future, ready};
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response};
use http_body_util::BodyExt;
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::transport::server::TlsConnectInfo;
use tower_service::Service;

use super::body::Counted;
use super::{Admission, Hold, Place};

/// A service whose requests must be admitted. Requests carry their [`Hold`] as an extension, and responses may.
#[derive(Clone)]
pub struct Guard<S> {
    inner: S,
    admission: Admission,
}

impl<S> Guard<S> {
    /// Guards `inner`.
    pub fn new(inner: S, admission: Admission) -> Self {
        Self { inner, admission }
    }
}

impl<S: NamedService> NamedService for Guard<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<Body>> for Guard<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let extensions = request.extensions();
        let tls = extensions.get::<TlsConnectInfo<Place>>();
        let place = tls.map_or_else(|| extensions.get(), |tls| Some(tls.get_ref()));
        if let Err(status) = self.admission.check(place) {
            return Box::pin(ready(Ok(status.into_http())));
        }
        let path = request.uri().path();
        let method = path.rsplit('/').next().unwrap_or(path).to_owned();
        let hold = Hold::default();
        let (admission, kept) = (self.admission.clone(), hold.clone());
        let mut request =
            request.map(|body| Body::new(Counted::new(body, admission, method, kept)));
        request.extensions_mut().insert(hold);
        let answer = self.inner.call(request);
        Box::pin(async move {
            let mut answer = answer.await?;
            Ok(match answer.extensions_mut().remove::<Hold>() {
                // The budget is freed when the body is dropped.
                Some(hold) => answer.map(|body| {
                    Body::new(body.map_frame(move |frame| {
                        let _kept = &hold;
                        frame
                    }))
                }),
                None => answer,
            })
        })
    }
}
