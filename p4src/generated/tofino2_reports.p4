// SPDX-License-Identifier: Apache-2.0
#define main whole
#include "../tna/tofino2.p4"
#undef main
#include "tofino_reports.p4"
