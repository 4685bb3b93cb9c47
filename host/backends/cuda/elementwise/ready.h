// Maps that training and decoding spend time in, as constants. The kernels of each do as the
// interpreter does, without decoding; they are chosen for a program that is the same.
#pragma once

#include "runtime/map/program.h"

namespace lamina::cuda {

// Computes value `num_inputs + k` from values a and b. The immediates of add_imm and mul_imm come
// with the call. `rounds`: the result is rounded to the type of the inputs, else it is an f32.
struct ReadyStep {
  MapOp op = MapOp::constant;
  int a = -1, b = -1;
  bool rounds = false;
};

inline constexpr int kMostReadySteps = 14, kMostReadyOperands = 5;

// All inputs and outputs have one type, f32 or bf16, and are contiguous. Outputs are numbers of
// values; they are rounded when they are stored.
struct ReadyMap {
  int num_inputs, num_steps, num_outputs;
  ReadyStep steps[kMostReadySteps];
  int outputs[2];
};

inline constexpr ReadyMap kReadyAdd = {2, 1, 1, {{MapOp::add, 0, 1}}, {2}};
inline constexpr ReadyMap kReadyMul = {2, 1, 1, {{MapOp::mul, 0, 1}}, {2}};
inline constexpr ReadyMap kReadyScale = {1, 1, 1, {{MapOp::mul_imm, 0}}, {1}};
// Three gradients of one value.
inline constexpr ReadyMap kReadyAddThree = {
    3, 2, 1, {{MapOp::add, 0, 1, true}, {MapOp::add, 3, 2}}, {4}};

// silu(gate) * up, computed in f32; its gradients of up and gate, from gate, up and dy.
inline constexpr ReadyMap kReadySwiglu = {2, 2, 1, {{MapOp::silu, 0}, {MapOp::mul, 2, 1}}, {3}};
inline constexpr ReadyMap kReadySwigluGrad = {3,
                                              10,
                                              2,
                                              {{MapOp::silu, 0},
                                               {MapOp::mul, 2, 1},
                                               {MapOp::mul, 2, 3},
                                               {MapOp::sigmoid, 0},
                                               {MapOp::neg, 6},
                                               {MapOp::add_imm, 7},
                                               {MapOp::mul, 0, 8},
                                               {MapOp::add_imm, 9},
                                               {MapOp::mul, 4, 6},
                                               {MapOp::mul, 11, 10}},
                                              {5, 12}};

// gelu_tanh(x); its gradient, from x and dy, computed in f32.
inline constexpr ReadyMap kReadyGelu = {1, 1, 1, {{MapOp::gelu_tanh, 0}}, {1}};
inline constexpr ReadyMap kReadyGeluGrad = {2,
                                            14,
                                            1,
                                            {{MapOp::square, 0},
                                             {MapOp::mul_imm, 2},
                                             {MapOp::add_imm, 3},
                                             {MapOp::mul, 0, 4},
                                             {MapOp::sigmoid, 5},
                                             {MapOp::mul_imm, 2},
                                             {MapOp::add_imm, 7},
                                             {MapOp::mul, 0, 8},
                                             {MapOp::neg, 6},
                                             {MapOp::add_imm, 10},
                                             {MapOp::mul, 9, 11},
                                             {MapOp::add_imm, 12},
                                             {MapOp::mul, 6, 13},
                                             {MapOp::mul, 1, 14}},
                                            {15}};

// For each: its name in kernels, ready_<name>_<f32|bf16>, and its program.
#define LAMINA_READY_MAPS(X)   \
  X(add, kReadyAdd)            \
  X(mul, kReadyMul)            \
  X(scale, kReadyScale)        \
  X(add_three, kReadyAddThree) \
  X(swiglu, kReadySwiglu)      \
  X(gelu_tanh, kReadyGelu)     \
  X(gelu_tanh_grad, kReadyGeluGrad)
// Without conversions, graphs in f32 have two maps for it.
#define LAMINA_READY_BF16_MAPS(X) X(swiglu_grad, kReadySwigluGrad)

// Conversions between the floating types of operands, cast_<from>_<to>.
#define LAMINA_READY_CASTS(X)        \
  X(f32, float, bf16, gpu::bfloat16) \
  X(bf16, gpu::bfloat16, f32, float) \
  X(f32, float, f16, gpu::float16)   \
  X(f16, gpu::float16, f32, float)

}  // namespace lamina::cuda
