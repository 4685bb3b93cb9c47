// Makes of a recorded block what runs in a phase: ops that mix tokens get their form without decode
// state or with it (ops/decode.h), draws their seed in training, and regions over time and custom
// ops become nodes. Private to decoder.
#pragma once

#include "decoder/trace/recording.h"

namespace lamina::decoder {

// Afterwards the recording has no scopes; its block has all inputs, and states with what is written
// over them.
void apply_forms(Recording& recording, const BlockContext& context);

}  // namespace lamina::decoder
