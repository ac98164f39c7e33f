// SPDX-License-Identifier: Apache-2.0
// Why a packet was dropped, as reports and `drop_counter` say it; docs/spec/telemetry-report.md lists them.
#ifndef WEIR_DROP_REASONS_P4
#define WEIR_DROP_REASONS_P4

#include "sizes.p4"

const drop_reason_t DROP_REASON_NONE    = 0;
const drop_reason_t DROP_REASON_QUEUE   = 51;
const drop_reason_t DROP_REASON_POLICER = 70;
const drop_reason_t DROP_REASON_NOT_ECT = 72;

const drop_reason_t DROP_REASON_CUT_ETHERNET       = 101;
const drop_reason_t DROP_REASON_CUT_VLAN           = 102;
const drop_reason_t DROP_REASON_CUT_IPV4           = 103;
const drop_reason_t DROP_REASON_CUT_IPV4_OPTIONS   = 104;
const drop_reason_t DROP_REASON_CUT_IPV6           = 105;
const drop_reason_t DROP_REASON_CUT_IPV6_EXTENSION = 106;
const drop_reason_t DROP_REASON_CUT_TRANSPORT      = 107;

const drop_reason_t DROP_REASON_IPV4_VERSION       = 110;
const drop_reason_t DROP_REASON_IPV4_HEADER_LENGTH = 111;
const drop_reason_t DROP_REASON_IPV4_LENGTH        = 112;
const drop_reason_t DROP_REASON_IPV4_OVERLAP       = 113;
const drop_reason_t DROP_REASON_IPV6_VERSION       = 114;
const drop_reason_t DROP_REASON_IPV6_LENGTH        = 115;
const drop_reason_t DROP_REASON_IPV6_OVERLAP       = 116;

#endif
