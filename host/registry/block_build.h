// One run of a plugin's build function: the object behind its lamina_build_t. Internal to registry.
#pragma once

#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lamina/ext/time_region.h"
#include "registry/abi_read.h"
#include "registry/trace.h"

namespace lamina::registry {

// The first failure, which is kept.
struct BuildFailure {
  lamina_status_t status = LAMINA_ERROR_INTERNAL;
  ErrorText text;
  std::string scope;
  abi::Where at;
  std::exception_ptr ours;  // an error that is not the plugin's fault: rethrown unchanged
};

// The target of a plugin's lamina_build_t. Never freed, so that a pointer that a plugin kept from
// an earlier build is refused instead of followed.
struct BuildHandle : lamina_build {
  class BlockBuild* build;  // null after the build
};

struct PluginOp;

class BlockBuild {
 public:
  BlockBuild(const Family& family, const Block& block, const ModelConfig& config, BlockTrace& trace,
             const BlockRequest& request);
  ~BlockBuild();
  BlockBuild(const BlockBuild&) = delete;
  BlockBuild& operator=(const BlockBuild&) = delete;

  BlockResult run();

 private:
  friend struct BuildCalls;      // targets of the function table
  friend struct ExtensionCalls;  // targets of the tables of ext/

  // Runs one call of the plugin: records its source location and turns exceptions into the failure.
  template <typename Body>
  static lamina_status_t call(lamina_build_t* build, const lamina_where_t* at, Body&& body);

  // Implementations of the calls. They throw abi::ContractError or Error.
  void emit(const lamina_emit_t* from);
  void emit_custom(const lamina_emit_t& use);
  lamina_tensor_t param(const lamina_param_t* from);
  lamina_state_t state(const lamina_state_desc_t* from);
  lamina_tensor_t input(std::uint32_t kind);
  lamina_tensor_t layer_constant(lamina_str_t name, lamina_span_t values);
  void type(lamina_tensor_t tensor, lamina_type_t* out);
  void scope(lamina_str_t name, std::uint32_t push);
  lamina_tensor_t tag(lamina_tensor_t tensor, lamina_str_t name);
  lamina_tensor_t axes(lamina_tensor_t tensor, lamina_span_t names);
  void add_auxiliary(const lamina_auxiliary_t* from);
  void update(const lamina_update_t* from);
  void export_value(lamina_tensor_t tensor, lamina_str_t param);
  void begin_region(const lamina_time_region_t* from);
  void end_region(const lamina_time_results_t* from);

  // Handles: trace | is it a state | generation | index.
  std::uint64_t handle(bool is_state, std::size_t index) const;
  std::size_t index_of(std::uint64_t handle, bool is_state, std::size_t count,
                       std::string_view what) const;
  lamina_tensor_t hand_out(Tensor tensor);
  Tensor tensor(lamina_tensor_t handle, std::string_view what) const;

  // Returns the inputs of an op; null for absent optional inputs.
  std::vector<Tensor> op_inputs(const Op& op, std::size_t num_inputs,
                                const lamina_span_t& handles) const;
  // Returns the index of a state by its handle.
  std::size_t state_index(lamina_state_t handle, std::string_view what) const;

  // Builds the plugin's lowering of a custom op and returns the results of its one node.
  std::vector<Tensor> build_lowering(const PluginOp& custom, const std::vector<Tensor>& inputs,
                                     const NamedAttrs& attrs);
  void refuse_in_lowering(std::string_view what) const;

  std::vector<Tensor> tensors(const lamina_span_t& handles, const std::string& what) const;
  void hand_out(std::span<const Tensor> values, lamina_tensor_t* to, const std::string& what);
  void refuse_in_region(std::string_view what) const;

  std::string full_name(const lamina_str_t& name, std::string_view what) const;
  std::string scope_path() const;
  // Returns whether a name is known or private to the plugin ("<plugin id>.<x>"); else logs a
  // warning with `effect`, the consequence.
  bool check_known(const std::string& name, std::span<const std::string_view> known,
                   std::string_view what, std::string_view effect) const;
  AxisId axis(const std::string& name) const;
  std::vector<AxisId> axis_list(const lamina_span_t& names, std::size_t num_dims,
                                std::string_view what) const;
  // Refuses a key that is neither "" nor a declared number.
  void require_number_key(const std::string& key, std::string_view what) const;
  void set_origin(const abi::Where& at);
  std::vector<Tensor> take_results(const std::vector<lamina_tensor_t>& handles,
                                   const std::vector<std::optional<Type>>& wanted) const;

  void fail(BuildFailure failure);
  // Throws the error for the user.
  [[noreturn]] void raise(const BuildFailure& failure) const;
  std::vector<std::string> config_notes(const std::string& message, bool about_config) const;

  BuildHandle& handle_;
  const Family& family_;
  const Block& block_;
  const ModelConfig& config_;
  BlockTrace& trace_;
  const BlockRequest& request_;
  ConfigView view_;
  std::shared_ptr<const Origin> outer_origin_;  // the graph's, restored at the end

  std::vector<Tensor> tensors_;  // by handle index
  std::vector<std::string> scopes_;
  std::vector<ParamDesc> params_;
  std::map<std::string, std::pair<std::size_t, lamina_tensor_t>> params_by_name_;
  std::vector<StateDesc> states_;
  std::map<std::uint32_t, lamina_tensor_t> inputs_;
  // Nodes of the bodies of regions over time: [first, end); end is 0 while the region is open.
  std::vector<std::pair<NodeId, NodeId>> regions_;
  std::vector<std::size_t> region_states_;  // indices of states used as carries
  // A custom op while its lowering is built: earlier values are not visible in it.
  struct Lowering {
    std::string op;
    std::string used_at;
    std::size_t first_tensor, first_state, first_scope, first_region;
  };
  std::optional<Lowering> lowering_;
  // Finished lowerings: nodes and states [first, end).
  struct Lowered {
    NodeId first, end;
    std::size_t first_state, end_state;
    std::string op;
  };
  std::vector<Lowered> lowered_;
  std::size_t num_ops_ = 0;
  std::optional<BuildFailure> failure_;
};

}  // namespace lamina::registry
