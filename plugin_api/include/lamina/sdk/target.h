// The oldest host that a plugin is for: a minor of the contract.
//
// Nothing younger is sent to it: attributes with their default and absent inputs at the end are
// left out, and what the plugin does use of a later minor is refused while it builds, with the
// line.
#pragma once

#include "lamina/abi.h"

// A plugin that wants a younger op, attribute or output says so:
// lamina_add_plugin(... TARGET_MINOR 7).
#ifndef LAMINA_TARGET_MINOR
#define LAMINA_TARGET_MINOR LAMINA_ABI_CANDIDATE
#endif
static_assert(LAMINA_TARGET_MINOR >= LAMINA_ABI_CANDIDATE,
              "hosts of minors before LAMINA_ABI_CANDIDATE load nothing of these headers");

static_assert(LAMINA_TARGET_MINOR <= LAMINA_ABI_MINOR,
              "LAMINA_TARGET_MINOR is younger than these headers");
