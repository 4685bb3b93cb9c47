// The oldest host that a plugin supports, as a minor of the contract.
//
// The SDK sends nothing newer to it. Attributes with their default and absent trailing inputs are
// left out; any other use of a later minor is refused while the plugin builds a block, with the
// source line.
#pragma once

#include "lamina/abi.h"

// A plugin that needs a newer op, attribute or output sets a newer minor:
// lamina_add_plugin(... TARGET_MINOR 7).
#ifndef LAMINA_TARGET_MINOR
#define LAMINA_TARGET_MINOR LAMINA_ABI_CANDIDATE
#endif
static_assert(LAMINA_TARGET_MINOR >= LAMINA_ABI_CANDIDATE,
              "LAMINA_TARGET_MINOR must not be older than LAMINA_ABI_CANDIDATE");

static_assert(LAMINA_TARGET_MINOR <= LAMINA_ABI_MINOR,
              "LAMINA_TARGET_MINOR must not be newer than these headers");
