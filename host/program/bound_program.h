// A compiled graph of a model, with memory bound to the roles of its inputs and outputs.
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
#include <string_view>
#include <vector>

#include "decoder/roles/model_graph.h"
#include "passes/pipeline.h"
#include "program/host_values.h"
#include "runtime/program.h"

namespace lamina::program {

// Scales by the name of a loss term.
using LossScales = std::map<std::string, double, std::less<>>;

class BoundProgram {
 public:
  // Optimises the graph for the kernels of `backend`, then compiles it. `observer` sees every pass.
  BoundProgram(decoder::ModelGraph graph, const Backend& backend,
               const passes::Observer& observer = {});

  // Binds memory to the input or output with that role; it must stay valid while bound. Ignores a
  // role that the graph does not have, because the inputs of blocks differ. REQUIRES: there is at
  // most one such input or output, and it is not stacked.
  void bind(decoder::Input role, const ConstTensorRef& memory);
  void bind(decoder::Output role, const TensorRef& memory);
  // Likewise for host memory with room for all elements; null: unbinds it. Values of outputs are
  // complete when run() returns. REQUIRES: T is the element type, or std::byte.
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

  // Binds one tensor per parameter of the model, in the element type Parameter::used_dtype.
  void bind_parameters(std::span<const ConstTensorRef> by_parameter);
  // Binds one gradient per parameter; for a list of rows also the ids of the rows.
  void bind_gradients(std::span<const TensorRef> by_parameter, std::span<const TensorRef> ids = {});
  // Binds one tensor per state, in the order of Model::states().
  void bind_states(std::span<const TensorRef> by_state);
  // Binds hidden states: one tensor per layer, [0] for the input of the stack, of hidden_bytes()
  // each.
  void bind_hidden(std::span<const TensorRef> by_layer);
  std::size_t hidden_bytes() const;

  // Values that the program owns (HostValues): the host sets Input::seed and Input::loss_scales,
  // which are 0 at first, and reads losses (also of tokens), metrics, sums of tasks, updates,
  // log-probabilities of segments and counts of multi-token prediction.
  void set(decoder::Input role, std::span<const std::int64_t> elements);
  // Other terms get the scale 0. Has no effect on a graph without gradients.
  void set_loss_scales(const LossScales& by_name);
  // Returns values of the last run; nothing for a role that the graph does not have.
  std::vector<double> values(decoder::Output role) const;
  // REQUIRES: the output, by its index, is one of these.
  std::vector<double> values(std::size_t output) const;
  // Returns the sum of a term of the loss; 0 if the graph has no such term.
  double loss(std::string_view name) const;
  const std::vector<decoder::LossTerm>& losses() const { return losses_; }

  // An output with a name: an auxiliary loss, a metric or a record.
  struct NamedOutput {
    decoder::Output role;
    std::string name;
    Type type;
    std::vector<std::int64_t> layers;  // of metrics and records: one per element of the first dim
    std::size_t index;                 // argument of values(), or of bind_output() for a record
  };
  std::vector<NamedOutput> named_outputs() const;
  template <typename T>
  void bind_output(std::size_t index, T* memory) {
    outputs_[index].whole = host_memory_of(output_type(index), dtype_of<T>(), memory);
  }

  // Returns the index of the parameter whose memory is element `element` of a stacked input of the
  // graph, or the whole of another input; -1 if the input is no parameter.
  int parameter_of(std::size_t input, std::int64_t element) const;

  // Roles of the inputs and outputs, in the order of program().graph().
  const std::vector<decoder::InputRole>& input_roles() const { return input_roles_; }
  const std::vector<decoder::OutputRole>& output_roles() const { return output_roles_; }

  // The uses of updates, one per update, and the rules that combine metrics of microbatches.
  const std::vector<decoder::ParameterUpdate>& updates() const { return updates_; }
  const std::map<std::string, decoder::Reduce>& metrics() const { return metrics_; }
  const std::vector<decoder::QueryKeyMatrices>& query_keys() const { return query_keys_; }

  std::size_t arena_bytes() const { return program_->arena_bytes(); }
  // Enqueues the program, as Program::run() does: values of outputs in host memory are complete
  // when it returns, other work may still have to run. REQUIRES: everything is bound, and `arena`
  // has at least arena_bytes().
  void run(const Buffer& arena) { program_->run(inputs_, outputs_, arena); }

  Program& program() { return *program_; }
  const Program& program() const { return *program_; }

 private:
  // The memory of an input or output in pieces, one per layer.
  template <typename Ref>
  struct Pieces {
    std::vector<int> members;       // parameters, states or layers, by index
    std::vector<Ref> tensors;       // one per member
    std::vector<std::byte> values;  // of per-layer constants
  };
  void bind_host_values();
  template <typename AnyBinding, typename Ref, typename Given>
  static void place(AnyBinding& binding, Pieces<Ref>& pieces, std::span<const Given> memory,
                    bool stacked);

  const Type& input_type(std::size_t i) const;
  const Type& output_type(std::size_t i) const;
  static TensorRef host_memory_of(const Type& type, DType given, void* memory);
  static ConstTensorRef host_memory_of(const Type& type, DType given, const void* memory);

  std::vector<decoder::InputRole> input_roles_;
  std::vector<decoder::OutputRole> output_roles_;
  std::vector<decoder::LossTerm> losses_;
  std::vector<decoder::ParameterUpdate> updates_;
  std::vector<decoder::QueryKeyMatrices> query_keys_;
  std::map<std::string, decoder::Reduce> metrics_;
  std::vector<ConstBinding> inputs_;
  std::vector<Binding> outputs_;
  std::vector<Pieces<ConstTensorRef>> input_pieces_;
  std::vector<Pieces<TensorRef>> output_pieces_;
  // By input and by output: a value of the host; kNotOwned for tensors that callers bind.
  static constexpr std::size_t kNotOwned = ~std::size_t{0};
  std::vector<std::size_t> input_values_, output_values_;
  HostValues values_;
  std::unique_ptr<Program> program_;
};

}  // namespace lamina::program
