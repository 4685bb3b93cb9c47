// Converts a recorded block to the form of a phase: ops that mix tokens get their form without or
// with decode state (ops/decode.h), draws get their seed in training, and regions over time and
// custom ops become nodes. Private to decoder.
#pragma once

#include "decoder/trace/recording.h"

namespace lamina::decoder {

// Afterwards the recording has no scopes; its block has all inputs, and all states with the values
// written over them.
void apply_forms(Recording& recording, const BlockContext& context);

}  // namespace lamina::decoder
