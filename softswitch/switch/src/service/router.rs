// SPDX-License-Identifier: Apache-2.0
//! Two gRPC services on one address.

use std::convert::Infallible;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use tonic::body::Body;
use tonic::server::NamedService;
use tower_service::Service;

/// Passes requests for the service `A` to it, and all others to `B`, which answers UNIMPLEMENTED to those that are not
/// for it. A request's path is `/SERVICE/METHOD` (gRPC over HTTP2, "Requests").
#[derive(Clone)]
pub struct Router<A, B>(pub A, pub B);

impl<A, B> Service<Request<Body>> for Router<A, B>
where
    A: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + NamedService,
    B: Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future = A::Future>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = A::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        ready!(self.0.poll_ready(context))?;
        self.1.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if request.uri().path().split('/').nth(1) == Some(A::NAME) {
            self.0.call(request)
        } else {
            self.1.call(request)
        }
    }
}
