// A model's graph, compiled, with memory bound to its roles: what loops and engines run.
//
//   BoundProgram step(model.decode_graph(shape, state), backend);
//   step.bind_parameters(weights.pointers());
//   step.bind(Input::tokens, tokens.data());
//   step.run(*arena);
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
  void bind(decoder::Input role, const ConstTensorRef& memory);
  void bind(decoder::Output role, const TensorRef& memory);
  // Likewise for host memory with room for all elements; null: none. Values
  // of outputs are there when run() returns. REQUIRES: T is the element type, or std::byte.
  template <typename T>
  void bind(decoder::Input role, const T* memory) {
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      if (input_roles_[i].role == role)
        inputs_[i].whole = host_memory_of(input_type(i), dtype_of<T>(), memory);
  }
  template <typename T>
  void bind(decoder::Output role, T* memory) {
    for (std::size_t i = 0; i < outputs_.size(); ++i)
      if (output_roles_[i].role == role) bind_output(i, memory);
  }
  bool has(decoder::Input role) const;
  bool has(decoder::Output role) const;

  // One tensor per parameter of the model, in the element type that Parameter::used_dtype says.
  void bind_parameters(std::span<const ConstTensorRef> by_parameter);
  // One tensor per parameter: its gradient; and the ids of its rows, where it is a list.
  void bind_gradients(std::span<const TensorRef> by_parameter, std::span<const TensorRef> ids = {});
  // One tensor per state, in the order of Model::states().
  void bind_states(std::span<const TensorRef> by_state);
  // Hidden states: one tensor per layer, [0] for the input of the stack, of hidden_bytes() each.
  void bind_hidden(std::span<const TensorRef> by_layer);
  std::size_t hidden_bytes() const;
  // One tensor per parameter: its update, f32 of its shape. Those of parameters without one are not
  // read.
  void bind_updates(std::span<const TensorRef> by_parameter);

  // Outputs with a name: auxiliary losses, metrics, records.
  struct NamedOutput {
    decoder::Output role;
    std::string name;
    Type type;
    std::vector<std::int64_t> layers;  // of metrics and records: one an element of the first dim
    std::size_t index;                 // for bind_output()
  };
  std::vector<NamedOutput> named_outputs() const;
  template <typename T>
  void bind_output(std::size_t index, T* memory) {
    outputs_[index].whole = host_memory_of(output_type(index), dtype_of<T>(), memory);
  }

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
  // REQUIRES: everything is bound. `arena` is at least arena_bytes() long. As Program::run():
  // values of outputs in host memory are there when it returns, other work may still have to run.
  void run(const Buffer& arena) { program_->run(inputs_, outputs_, arena); }

  Program& program() { return *program_; }
  const Program& program() const { return *program_; }

 private:
  // The memory of an input or output that is in pieces, one per layer.
  template <typename Ref>
  struct Pieces {
    std::vector<int> members;       // parameters, states or layers, by index
    std::vector<Ref> tensors;       // one each
    std::vector<std::byte> values;  // of per-layer constants
  };
  template <typename AnyBinding, typename Ref, typename Given>
  static void place(AnyBinding& binding, Pieces<Ref>& pieces, std::span<const Given> memory,
                    bool stacked);

  const Type& input_type(std::size_t i) const;
  const Type& output_type(std::size_t i) const;
  static TensorRef host_memory_of(const Type& type, DType given, void* memory);
  static ConstTensorRef host_memory_of(const Type& type, DType given, const void* memory);

  std::vector<decoder::InputRole> input_roles_;
  std::vector<decoder::OutputRole> output_roles_;
  std::vector<decoder::ParameterUpdate> updates_;
  std::vector<decoder::QueryKeyMatrices> query_keys_;
  std::map<std::string, decoder::Reduce> metrics_;
  std::vector<ConstBinding> inputs_;
  std::vector<Binding> outputs_;
  std::vector<Pieces<ConstTensorRef>> input_pieces_;
  std::vector<Pieces<TensorRef>> output_pieces_;
  std::unique_ptr<Program> program_;
};

}  // namespace lamina::program
