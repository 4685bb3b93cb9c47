// A model's graph, compiled, with memory bound to its roles: what loops and engines run.
//
//   BoundProgram step(model.decode_graph(shape, state), backend);
//   step.bind_parameters(weights.pointers());
//   step.bind(Input::tokens, tokens.data());
//   step.run(arena);
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "decoder/roles/model_graph.h"
#include "passes/pipeline.h"
#include "runtime/program.h"

namespace lamina::program {

class BoundProgram {
 public:
  // Optimises for what `backend` has kernels for, then compiles. `observer` sees every pass.
  BoundProgram(decoder::ModelGraph graph, const Backend& backend,
               const passes::Observer& observer = {});

  // Memory for the input or output with that role; it must stay valid while bound. REQUIRES: there
  // is at most one such input or output, and it is not stacked. A role the graph does not have is
  // ignored: blocks differ in what they read.
  void bind(decoder::Input role, void* memory);
  void bind(decoder::Output role, void* memory);
  bool has(decoder::Input role) const;
  bool has(decoder::Output role) const;

  // One pointer per parameter of the model, in the element type that Parameter::used_dtype says.
  void bind_parameters(std::span<void* const> by_parameter);
  // One pointer per parameter: where its gradient goes; and the ids of its rows, where it is a
  // list.
  void bind_gradients(std::span<void* const> by_parameter, std::span<void* const> ids = {});
  // One pointer per state tensor, in the order of Model::states().
  void bind_states(std::span<void* const> by_state);
  // Where hidden states go: one pointer per layer, [0] for what enters the stack. hidden_bytes() is
  // what each of them takes.
  void bind_hidden(std::span<void* const> by_layer);
  std::size_t hidden_bytes() const;
  // One pointer per parameter: where its update goes, f32 of its shape. Those of parameters without
  // one are not read.
  void bind_updates(std::span<void* const> by_parameter);

  // Outputs with a name: auxiliary losses, metrics, records.
  struct NamedOutput {
    decoder::Output role;
    std::string name;
    Type type;
    std::vector<std::int64_t> layers;  // of metrics and records: one an element of the first dim
    std::size_t index;                 // for bind_output()
  };
  std::vector<NamedOutput> named_outputs() const;
  void bind_output(std::size_t index, void* memory) { outputs_[index].base = memory; }

  // The parameter, by index, whose memory is element `element` of a stacked input of the graph, or
  // the whole of another; -1 where the input is none.
  int parameter_of(std::size_t input, std::int64_t element) const;

  // What its inputs and outputs are, in the order of program().graph().
  const std::vector<decoder::InputRole>& input_roles() const { return input_roles_; }
  const std::vector<decoder::OutputRole>& output_roles() const { return output_roles_; }

  // What is done with updates, one each; how metrics of microbatches become one.
  const std::vector<decoder::ParameterUpdate>& updates() const { return updates_; }
  const std::map<std::string, decoder::Reduce>& metrics() const { return metrics_; }
  const std::vector<decoder::QueryKeyMatrices>& query_keys() const { return query_keys_; }

  std::size_t arena_bytes() const { return program_->arena_bytes(); }
  // REQUIRES: everything is bound. `arena` is at least arena_bytes() long.
  void run(std::byte* arena) { program_->run(inputs_, outputs_, arena); }

  Program& program() { return *program_; }
  const Program& program() const { return *program_; }

 private:
  // The memory of an input or output that lies in pieces, one per layer.
  struct Pieces {
    std::vector<int> members;       // parameters, states or layers, by index
    std::vector<void*> pointers;    // one each
    std::vector<std::byte> values;  // of per-layer constants
  };
  void place(Binding& binding, Pieces& pieces, std::span<void* const> memory, bool stacked);

  std::vector<decoder::InputRole> input_roles_;
  std::vector<decoder::OutputRole> output_roles_;
  std::vector<decoder::ParameterUpdate> updates_;
  std::vector<decoder::QueryKeyMatrices> query_keys_;
  std::map<std::string, decoder::Reduce> metrics_;
  std::vector<Binding> inputs_, outputs_;
  std::vector<Pieces> input_pieces_, output_pieces_;
  std::unique_ptr<Program> program_;
};

}  // namespace lamina::program
