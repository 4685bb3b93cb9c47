// What a model costs, before any of it exists: parameters, memory, arithmetic.
//
//   ModelPlan plan = plan_model(model, {.tokens = 4096}, cpu::cpu_backend());
//
// All of it is derived from the model's parameters, states and graphs; no weights are read and
// nothing of their size is allocated.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "decoder/model.h"
#include "runtime/backend.h"
#include "train/loop/remat_policies.h"
#include "train/loop/task.h"
#include "train/optimizer/train_state.h"
#include "train/tasks/teacher.h"

namespace lamina::inspect {

struct PlanOptions {
  std::int64_t microbatches = 1;            // of a training step
  std::int64_t batch = 1;                   // rows of a microbatch, sequences that are decoded
  std::int64_t tokens = 4096;               // of a row; what decode state holds
  DType dtype = DType::bf16;                // to compute in
  bool segments = false;                    // rows hold several documents
  std::optional<train::RematPolicy> remat;  // the run's
  config::OptimizerSection optimizer = {};
  bool layer_metrics = false;     // training counts them
  bool async_checkpoints = true;  // written while training goes on
  train::KeptAverage average = train::KeptAverage::none;
  std::shared_ptr<const train::Task> task = train::next_token_task();
  std::shared_ptr<const decoder::Model> teacher = {};  // of a task that has one
  DType teacher_dtype = DType::bf16;

  // What a training step computes.
  decoder::GraphFeatures features() const;
};

// Numbers of elements. Tables of integers are not parameters.
struct ParameterCounts {
  std::int64_t total = 0;
  std::int64_t embedding = 0;  // the table of tokens
  std::int64_t positions = 0;  // the table of learned positions
  std::int64_t layers = 0;
  std::int64_t norm = 0;    // after the last layer
  std::int64_t head = 0;    // 0 where it is the embedding
  std::int64_t other = 0;   // what else lies outside the layers
  std::int64_t routed = 0;  // of experts of which each token chooses some
  std::int64_t active = 0;  // what one token uses: total less the experts not chosen
  // Active less the head and the tables outside the layers. Those in layers (Engram's) count.
  std::int64_t active_non_embedding = 0;
  std::int64_t training_only = 0;  // not in total: what decoding never reads
  std::int64_t integers = 0;       // not in total: elements of tables of integers
};

// A part of the stack picture.
struct StackPart {
  std::string name;    // "embedding", "layers 0-31"
  std::string detail;  // "{local x 5, global} x 10"
  std::int64_t parameters = 0;
  std::int64_t active = 0;
  std::vector<StackPart> members;  // the kinds of layers of a unit that has several
};

// Decode state of one kind and size, of one sequence.
struct StateUse {
  std::string kind;
  std::int64_t num_layers = 0;
  double bytes_per_token = 0;  // of one layer, for every token more
  double fixed_bytes = 0;      // of one layer, however long the sequence
};

// Of the last token of `tokens`, of one sequence.
struct DecodeWork {
  double flops = 0;
  double read_bytes = 0;  // weights and state that this token must read
};

// Floating point operations of products and attention, and bytes, for one token.
struct WorkPerToken {
  double forward_flops = 0;          // the mean over a row of `tokens`
  double train_flops = 0;            // forward and backward, with what only training computes
  std::optional<DecodeWork> decode;  // none of a model that is not autoregressive
};

// What a training run holds beside the temporaries of its steps.
struct TrainMemory {
  train::TrainBytes bytes;          // from step to step
  std::size_t updates = 0;          // temporaries of the optimizer
  std::size_t checkpoint = 0;       // copies while a checkpoint is written, at most
  std::int64_t frozen = 0;          // elements of parameters
  std::size_t whole_gradients = 0;  // what bytes.gradients would be without lists of rows
  train::TeacherBytes teacher = {};

  std::size_t total() const { return bytes.total() + updates + checkpoint + teacher.total(); }
};

// Temporaries of a training step under one rematerialisation policy; no parameters, gradients or
// optimizer state.
struct RematCost {
  std::vector<std::string> policies;  // those that keep the same values of this model
  bool chosen = false;                // one of them is the run's
  std::int64_t arena_bytes = 0;       // all temporaries, as the memory planner lays them out
  std::int64_t kept_bytes = 0;        // alive between the forward and the backward pass
  double recomputed_flops_per_token = 0;
};

struct ModelPlan {
  PlanOptions options;
  std::string family;
  std::int64_t num_layers = 0, hidden_size = 0, vocab_size = 0;
  ParameterCounts parameters;
  std::vector<std::pair<DType, std::int64_t>> weight_bytes;  // by the type of matrices
  std::vector<StackPart> stack;
  std::vector<StateUse> states;
  std::int64_t state_bytes = 0;  // of `batch` sequences of `tokens`
  WorkPerToken work;
  TrainMemory train;
  std::vector<RematCost> remat;
};

// Throws UserError (exit 2) where the model cannot be as long as `options.tokens`.
ModelPlan plan_model(const decoder::Model& model, const PlanOptions& options,
                     const Backend& backend);

// The part of it that is quickest to have.
ParameterCounts count_parameters(const decoder::Model& model);

TrainMemory plan_train_memory(const decoder::Model& model, const PlanOptions& options,
                              const Backend& backend);

// The costs of every policy, each distinct one once, dearest in memory first.
std::vector<RematCost> plan_activations(const decoder::Model& model, const PlanOptions& options,
                                        const Backend& backend);

}  // namespace lamina::inspect
