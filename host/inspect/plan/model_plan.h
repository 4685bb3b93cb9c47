// The cost of a model before it is built: parameters, memory, arithmetic.
//
//   ModelPlan plan = plan_model(model, {.tokens = 4096}, backend);
//
// Derived from the model's parameters, states and graphs; reads no weights and allocates no memory
// of their size.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "decoder/model.h"
#include "inspect/plan/storage.h"
#include "runtime/backend.h"
#include "train/loop/remat_policies.h"
#include "train/loop/task.h"
#include "train/optimizer/train_state.h"
#include "train/tasks/teacher.h"

namespace lamina::inspect {

struct PlanOptions {
  std::int64_t microbatches = 1;            // of a training step, per device
  int num_ranks = 1;                        // devices that share each step
  std::int64_t batch = 1;                   // rows of a microbatch, or sequences when decoding
  std::int64_t tokens = 4096;               // per row; capacity of the decode state
  DType dtype = DType::bf16;                // compute type
  bool segments = false;                    // rows hold several documents
  std::optional<train::RematPolicy> remat;  // the run's
  config::OptimizerSection optimizer = {};
  config::KeyPlace place = {};    // of its keys, for errors
  bool layer_metrics = false;     // training computes them
  bool async_checkpoints = true;  // written while training continues
  train::KeptAverage average = train::KeptAverage::none;
  std::shared_ptr<const train::Task> task = train::next_token_task();
  std::shared_ptr<const decoder::Model> teacher = {};  // of a task with a teacher
  DType teacher_dtype = DType::bf16;

  // The features of a training step's graph.
  decoder::GraphFeatures features() const;
};

// Numbers of elements. Integer tables are not parameters.
struct ParameterCounts {
  std::int64_t total = 0;
  std::int64_t embedding = 0;  // the token table
  std::int64_t positions = 0;  // the table of learned positions
  std::int64_t layers = 0;
  std::int64_t norm = 0;    // after the last layer
  std::int64_t head = 0;    // 0 if it is the embedding
  std::int64_t other = 0;   // other parameters outside the layers
  std::int64_t routed = 0;  // of experts that tokens choose among
  std::int64_t active = 0;  // used by one token: total without the experts that are not chosen
  // Active without the head and the tables outside the layers. Tables in layers (Engram's) count.
  std::int64_t active_non_embedding = 0;
  std::int64_t training_only = 0;  // not in total: never read when decoding
  std::int64_t integers = 0;       // not in total: elements of integer tables
};

// A part of the stack picture.
struct StackPart {
  std::string name;    // "embedding", "layers 0-31"
  std::string detail;  // "{local x 5, global} x 10"
  std::int64_t parameters = 0;
  std::int64_t active = 0;
  std::vector<StackPart> members;  // the kinds of layers of a unit with several
};

// Decode state of one kind and size, for one sequence.
struct StateUse {
  std::string kind;
  std::int64_t num_layers = 0;
  double bytes_per_token = 0;  // per layer and additional token
  double fixed_bytes = 0;      // per layer, for any length
};

// The last token of `tokens`, for one sequence.
struct DecodeWork {
  double flops = 0;
  double read_bytes = 0;  // weights and state that this token must read
};

// Floating point operations of products and attention, and bytes, for one token.
struct WorkPerToken {
  double forward_flops = 0;          // the mean over a row of `tokens`
  double train_flops = 0;            // forward and backward, including work that only training does
  std::optional<DecodeWork> decode;  // absent for a model that is not autoregressive
};

// Memory of a training run besides the temporaries of its steps.
struct TrainMemory {
  train::TrainBytes bytes;          // kept from step to step
  std::size_t updates = 0;          // temporaries of the optimizer
  std::size_t checkpoint = 0;       // copies while a checkpoint is written, at most
  std::int64_t frozen = 0;          // elements of parameters
  std::size_t whole_gradients = 0;  // bytes.gradients without lists of rows
  train::TeacherBytes teacher = {};
  std::size_t exchange = 0;  // for the sums over several devices, beside the gradients

  std::size_t total() const {
    return bytes.total() + updates + checkpoint + teacher.total() + exchange;
  }
};

// Temporaries of a training step under one rematerialisation policy, without parameters, gradients
// and optimizer state.
struct RematCost {
  std::vector<std::string> policies;  // policies that keep the same values of this model
  bool chosen = false;                // one of them is the run's
  std::int64_t arena_bytes = 0;       // all temporaries, as the memory planner places them
  std::int64_t kept_bytes = 0;        // live between the forward and the backward pass
  std::int64_t host_bytes = 0;        // in host memory between the passes
  double copied_bytes = 0;            // of a step, between host memory and the device, each way
  std::size_t transfer_bytes = 0;     // for values that a step exchanges with the host
  double recomputed_flops_per_token = 0;
};

struct ModelPlan {
  PlanOptions options;
  std::string family;
  std::int64_t num_layers = 0, hidden_size = 0, vocab_size = 0;
  ParameterCounts parameters;
  std::vector<std::pair<DType, std::int64_t>> weight_bytes;  // by type of the matrices
  // Bytes in memory by storage (Parameter::storage): "Q4_K", or "plain" in options.dtype. Empty if
  // no parameter is stored in blocks.
  std::vector<std::pair<std::string, std::int64_t>> stored_bytes;
  std::vector<ParameterStorage> storage;  // likewise
  std::vector<StackPart> stack;
  std::vector<StateUse> states;
  std::int64_t state_bytes = 0;  // for `batch` sequences of `tokens`
  WorkPerToken work;
  TrainMemory train;
  std::vector<RematCost> remat;
};

// Throws UserError (exit 2) if the model does not support `options.tokens`.
ModelPlan plan_model(const decoder::Model& model, const PlanOptions& options,
                     const Backend& backend);

// The part of the plan that is cheap to compute.
ParameterCounts count_parameters(const decoder::Model& model);

TrainMemory plan_train_memory(const decoder::Model& model, const PlanOptions& options,
                              const Backend& backend);

// The costs of every policy, each distinct one once, the largest memory first.
std::vector<RematCost> plan_activations(const decoder::Model& model, const PlanOptions& options,
                                        const Backend& backend);

}  // namespace lamina::inspect
