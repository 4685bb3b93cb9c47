// The calls that a plugin makes while it builds a block: each is checked, then passed to the trace.
#include "registry/block_build.h"

#include <algorithm>
#include <cmath>

#include <mutex>
#include <set>

#include "core/log.h"
#include "core/suggest.h"
#include "ops/state_layout.h"
#include "registry/abi_ops.h"
#include "registry/known_numbers.h"
#include "registry/names.h"

namespace lamina::registry {
namespace {

constexpr std::int64_t kMaxElements = std::int64_t{1} << 45;
constexpr std::size_t kMaxScopes = 64;
// Limit that stops an endless loop in a build.
constexpr std::size_t kMaxOps = std::size_t{1} << 18;
constexpr std::uint32_t kMaxOutputs = 64;

// The sizes come from a config; plugins cannot check them.
void check_size(std::span<const std::int64_t> dims, const std::string& what) {
  std::int64_t elements = 1;
  for (std::int64_t dim : dims) {
    if (dim < 0)
      throw abi::ContractError(
          LAMINA_ERROR_SHAPE,
          fmt::format("{} has dims [{}]; dims must not be negative", what, fmt::join(dims, ", ")));
    if (dim > kMaxElements / elements)
      throw abi::ContractError(LAMINA_ERROR_CONFIG,
                               fmt::format("{} has dims [{}]; the maximum is 2^45 elements", what,
                                           fmt::join(dims, ", ")));
    elements *= std::max<std::int64_t>(dim, 1);
  }
}

// "role, group": the parts in which two descriptions of a parameter differ.
std::string differences(const ParamDesc& a, const ParamDesc& b) {
  std::vector<std::string_view> out;
  if (a.role != b.role) out.push_back("role");
  if (a.axes != b.axes) out.push_back("list of axes");
  if (a.init != b.init) out.push_back("initialiser");
  if (a.dtype != b.dtype) out.push_back("element type");
  if (a.trained != b.trained || a.decay != b.decay || a.unshared != b.unshared ||
      a.quantize != b.quantize)
    out.push_back("set of flags");
  if (a.group != b.group) out.push_back("group");
  return fmt::format("{}", fmt::join(out, ", "));
}

std::vector<std::int64_t> sizes(const lamina_span_t& from, const std::string& what) {
  std::vector<std::int64_t> out = abi::plain<std::int64_t>(from, what);
  if (out.size() > LAMINA_MAX_DIMS)
    abi::refuse("{} has {} dims; the maximum is {}", what, out.size(), LAMINA_MAX_DIMS);
  for (std::size_t i = 0; i < out.size(); ++i)
    if (out[i] < 1)
      throw abi::ContractError(
          LAMINA_ERROR_SHAPE,
          fmt::format("dim {} of {} must be at least 1, got {}", i, what, out[i]));
  check_size(out, what);
  return out;
}

// Converts a number of names.h to our enumerator with the same number.
template <typename Enum>
Enum enumerator(std::uint32_t from, std::uint32_t list, const std::string& what) {
  const KnownNumbers known = known_numbers(list);
  if (!known.contain(from))
    throw abi::ContractError(
        LAMINA_ERROR_UNSUPPORTED,
        fmt::format("{} is {}; expected {} to {}", what, from, known.min, known.max));
  return static_cast<Enum>(from);
}

// Logs each text once, regardless of the number of traces and threads.
void warn_once(const std::string& text) {
  static std::mutex mutex;
  static auto& said = *new std::set<std::string>;
  std::lock_guard lock(mutex);
  if (said.insert(text).second) log::warning("{}", text);
}

InitSpec read_init(const lamina_param_t& from, const std::string& what) {
  InitSpec out{enumerator<InitSpec::Kind>(from.init, LAMINA_CAPABILITY_INIT, "the init of " + what),
               from.init_a, from.init_b};
  if (!std::isfinite(out.a) || !std::isfinite(out.b))
    abi::refuse("the init of {} has the numbers {} and {}, which must be finite", what, out.a,
                out.b);
  using Kind = InitSpec::Kind;
  const bool is_deviation =
      out.kind == Kind::normal || out.kind == Kind::truncated_normal || out.kind == Kind::fan_in;
  if (is_deviation && out.a < 0)
    abi::refuse("the init of {} must have a non-negative deviation, got {}", what, out.a);
  const bool is_range = out.kind == Kind::uniform || out.kind == Kind::log_uniform;
  if (is_range && out.a > out.b)
    abi::refuse("the init of {} draws between {} and {}; the first must be smaller", what, out.a,
                out.b);
  if (out.kind == Kind::log_uniform && out.a <= 0)
    abi::refuse("the init of {} takes the logarithm of {}; it must be positive", what, out.a);
  if (out.kind == Kind::cycle && out.a < 1)
    abi::refuse("the init of {} counts modulo {}; it must be at least 1", what, out.a);
  return out;
}

void check_state_dims(StateKind kind, std::size_t count, const std::string& what) {
  auto require = [&](std::size_t min, std::size_t max) {
    if (count < min || count > max)
      abi::refuse("{} has {} dims; its kind requires {} to {}", what, count, min, max);
  };
  switch (kind) {
#define LAMINA_STATE_KIND(name, number, text, min_dims, max_dims) \
  case StateKind::name:                                           \
    return require(min_dims, max_dims);
#include "lamina/state_kinds.def"
  }
}

}  // namespace

void BlockBuild::emit(const lamina_emit_t* from) {
  const lamina_emit_t use = abi::copy(from, "lamina_emit_t");
  if (++num_ops_ > kMaxOps) abi::refuse("it uses more than {} ops", kMaxOps);
  if (use.op >= LAMINA_CUSTOM_OPS) return emit_custom(use);
  const Op& op = abi::op(use.op, use.revision);
  if (op.id >= LAMINA_DRAFT_OPS && !family_.plugin().of_this_minor)
    throw abi::ContractError(
        LAMINA_ERROR_UNSUPPORTED,
        fmt::format("op '{}' is a draft, which may change with every minor, and the plugin was "
                    "built for another minor than this host's {}.{}; rebuild it",
                    op.name, LAMINA_ABI_MAJOR, LAMINA_ABI_MINOR));
  const std::vector<Tensor> inputs = op_inputs(op, op.num_plugin_inputs, use.inputs);
  std::optional<int> state;
  if (use.state != 0)
    state = static_cast<int>(state_index(use.state, fmt::format("the state of op '{}'", op.name)));
  if (use.n_outputs > kMaxOutputs)
    abi::refuse("op '{}' has {} outputs, but {} are requested", op.name, op.outputs.size(),
                use.n_outputs);
  if (use.n_outputs > 0 && use.outputs == nullptr)
    abi::refuse("op '{}' has a null pointer for its outputs", op.name);
  const NamedAttrs attrs = abi::attrs(op, use.attrs);
  const std::vector<Tensor> outputs = trace_.add_op(op, inputs, attrs, state);
  // Additional outputs in a newer list of ops get no handle. Nothing is written before everything
  // is checked.
  const std::size_t num_known = std::min<std::size_t>(use.n_outputs, outputs.size());
  for (std::size_t i = 0; i < num_known; ++i)
    check_size(outputs[i].shape().dims(), fmt::format("the result of op '{}'", op.name));
  for (std::size_t i = 0; i < use.n_outputs; ++i)
    use.outputs[i] = i < num_known ? hand_out(outputs[i]) : 0;
}

std::vector<Tensor> BlockBuild::op_inputs(const Op& op, std::size_t num_inputs,
                                          const lamina_span_t& from) const {
  const auto handles =
      abi::plain<lamina_tensor_t>(from, fmt::format("the inputs of op '{}'", op.name));
  const bool variadic = num_inputs > 0 && op.inputs[num_inputs - 1].variadic;
  const std::size_t fixed = num_inputs - (variadic ? 1 : 0);
  std::size_t num_given = handles.size();
  // Additional inputs of a newer list of ops are ignored.
  while (!variadic && num_given > fixed && handles[num_given - 1] == 0) --num_given;
  if (num_given > fixed && !variadic)
    abi::refuse("op '{}' takes {} inputs, got {}", op.name, fixed, num_given);
  std::vector<Tensor> inputs(std::max(fixed, num_given));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const OpInput& input = op.inputs[std::min(i, num_inputs - 1)];
    const lamina_tensor_t given = i < num_given ? handles[i] : 0;
    if (given != 0 || !(input.optional || trace_.supplies(op, i)))
      inputs[i] = tensor(given, fmt::format("input '{}' of op '{}'", input.name, op.name));
  }
  return inputs;
}

lamina_tensor_t BlockBuild::param(const lamina_param_t* from) {
  refuse_in_lowering("a parameter");
  const lamina_param_t given = abi::copy(from, "lamina_param_t");
  ParamDesc out;
  out.name = full_name(given.name, "the name of a parameter");
  const std::string what = "parameter '" + out.name + "'";
  for (std::string_view reserved : {"host.", "engram."})
    if (out.name.starts_with(reserved))
      abi::refuse("{} begins with '{}', the prefix of parameters that the host adds to a layer",
                  what, reserved);
  out.shape = Shape(std::span<const std::int64_t>(sizes(given.dims, what)));
  const auto known = params_by_name_.find(out.name);
  const ParamDesc* const first =
      known == params_by_name_.end() ? nullptr : &params_[known->second.first];
  if (first && first->shape != out.shape)
    throw abi::ContractError(
        LAMINA_ERROR_SHAPE, fmt::format("{} is declared as {}, but was declared before as {}", what,
                                        to_string(out.shape), to_string(first->shape)));
  constexpr std::uint32_t kFlags = LAMINA_PARAM_BUFFER | LAMINA_PARAM_NO_DECAY |
                                   LAMINA_PARAM_DECAY | LAMINA_PARAM_UNSHARED |
                                   LAMINA_PARAM_NO_QUANTIZE;
  abi::check_flags(given.flags, kFlags, what);
  out.axes = axis_list(given.axes, static_cast<std::size_t>(out.shape.ndim()), what);
  out.role = given.role == 0
                 ? Role::weight
                 : enumerator<Role>(given.role, LAMINA_CAPABILITY_ROLE, "the role of " + what);
  out.init = read_init(given, what);
  out.trained = !(given.flags & LAMINA_PARAM_BUFFER);
  out.unshared = given.flags & LAMINA_PARAM_UNSHARED;
  out.quantize = !(given.flags & LAMINA_PARAM_NO_QUANTIZE);
  if (given.flags & LAMINA_PARAM_NO_DECAY) out.decay = false;
  if (given.flags & LAMINA_PARAM_DECAY) {
    if (out.decay) abi::refuse("{} has both flags, with decay and without", what);
    out.decay = true;
  }
  out.dtype = abi::dtype(given.dtype, what);
  if (out.dtype == DType::boolean)
    throw abi::ContractError(
        LAMINA_ERROR_DTYPE,
        fmt::format("{} has the element type {}; expected f32, bf16, f16, f64, i32 or i64", what,
                    name(*out.dtype)));
  if (out.dtype && !is_floating(*out.dtype)) out.trained = false;
  out.group = abi::text(given.group, "the group of " + what);
  if (first && *first != out)
    abi::refuse(
        "{} is declared twice, with another {}; use the first tensor, or give this one another "
        "name",
        what, differences(*first, out));
  if (first) return known->second.second;
  const lamina_tensor_t handle = hand_out(trace_.make_param(out));
  params_by_name_[out.name] = {params_.size(), handle};
  params_.push_back(std::move(out));
  return handle;
}

lamina_state_t BlockBuild::state(const lamina_state_desc_t* from) {
  const lamina_state_desc_t given = abi::copy(from, "lamina_state_desc_t");
  StateDesc out;
  out.name = full_name(given.name, "the name of a state");
  const std::string what = "state '" + out.name + "'";
  for (const StateDesc& other : states_)
    if (other.name == out.name)
      abi::refuse(
          "{} is declared twice; names must be unique: declare it in another scope "
          "(step.in(scope)) or give it another name",
          what);
  abi::check_flags(given.flags, LAMINA_STATE_FLAG_NO_QUANTIZE, what);
  out.kind = enumerator<StateKind>(given.kind, LAMINA_CAPABILITY_STATE, "the kind of " + what);
  out.dims = sizes(given.dims, what);
  check_state_dims(out.kind, out.dims.size(), what);
  out.axes = axis_list(given.axes, out.dims.size(), what);
  out.window = given.window;
  out.chunk = given.chunk;
  if (out.window < 0 || out.chunk < 0)
    abi::refuse("{} has window {} and chunk {}; they must not be negative", what, out.window,
                out.chunk);
  if (given.stride < 0)
    abi::refuse("{} has stride {}; it must not be negative", what, given.stride);
  out.stride = std::max<std::int64_t>(given.stride, 1);
  const bool has_slots = ops::layout_of(out.kind) == ops::StateLayout::slots;
  if (!has_slots && (out.window > 0 || out.chunk > 0 || out.stride > 1))
    abi::refuse(
        "{} has window {}, chunk {} and stride {}, but a state of kind {} has the same size for "
        "any number of tokens; remove them",
        what, out.window, out.chunk, out.stride, ops::to_string(out.kind));
  out.dtype = abi::dtype(given.dtype, what);
  out.quantize = !(given.flags & LAMINA_STATE_FLAG_NO_QUANTIZE);
  trace_.make_state(out, static_cast<int>(states_.size()));
  states_.push_back(std::move(out));
  return handle(true, states_.size() - 1);
}

lamina_tensor_t BlockBuild::input(std::uint32_t kind) {
  refuse_in_lowering("an input of the block");
  const auto which = enumerator<InputKind>(kind, LAMINA_CAPABILITY_INPUT, "the kind of input");
  auto at = inputs_.find(kind);
  if (at == inputs_.end()) {
    const Tensor input = trace_.make_input(which);
    at = inputs_.emplace(kind, input ? hand_out(input) : 0).first;
  }
  return at->second;
}

lamina_tensor_t BlockBuild::layer_constant(lamina_str_t name, lamina_span_t values) {
  refuse_in_lowering("a constant of the layer");
  const std::string full = full_name(name, "the name of a constant");
  const std::vector<double> numbers =
      abi::plain<double>(values, fmt::format("the values of '{}'", full));
  if (static_cast<std::int64_t>(numbers.size()) != config_.num_layers())
    abi::refuse("constant '{}' has {} values, but the model has {} layers", full, numbers.size(),
                config_.num_layers());
  for (double number : numbers)
    if (!std::isfinite(number))
      abi::refuse("constant '{}' has the value {}; expected finite numbers", full, number);
  return hand_out(trace_.make_layer_constant(full, numbers));
}

void BlockBuild::type(lamina_tensor_t given, lamina_type_t* out) {
  const Type& type = tensor(given, "the tensor").type();
  lamina_type_t answer{};
  answer.dtype = abi::dtype_number(type.dtype);
  answer.ndim = static_cast<std::uint32_t>(type.ndim());
  for (int i = 0; i < type.ndim(); ++i) answer.dims[i] = type.dim(i);
  abi::write(answer, out, "the output for the type");
}

void BlockBuild::scope(lamina_str_t name, std::uint32_t push) {
  if (push > 1) abi::refuse("push is {}; it must be 0 or 1", push);
  if (push == 0) {
    if (scopes_.empty()) abi::refuse("a scope is closed, but no scope is open");
    if (lowering_ && scopes_.size() <= lowering_->first_scope)
      abi::refuse("a scope is closed in the lowering of op '{}', which did not open it",
                  lowering_->op);
    scopes_.pop_back();
    return;
  }
  if (scopes_.size() == kMaxScopes) abi::refuse("more than {} scopes are open", kMaxScopes);
  scopes_.push_back(name.len == 0 ? "" : abi::name(name, "the name of a scope"));
}

lamina_tensor_t BlockBuild::tag(lamina_tensor_t given, lamina_str_t name) {
  refuse_in_lowering("a tag");
  const Tensor value = tensor(given, "the tensor");
  const std::string tag = abi::text(name, "a tag");
  check_known(tag, tag_names(), "tag", "no rematerialisation policy uses it");
  return hand_out(trace_.tag(value, tag));
}

lamina_tensor_t BlockBuild::axes(lamina_tensor_t given, lamina_span_t names) {
  const Tensor value = tensor(given, "the tensor");
  return hand_out(trace_.annotate(
      value, axis_list(names, static_cast<std::size_t>(value.ndim()), "the tensor")));
}

void BlockBuild::export_value(lamina_tensor_t given, lamina_str_t param) {
  refuse_in_lowering("an exported value");
  const Tensor value = tensor(given, "the tensor");
  trace_.tag(value, export_tag(abi::name(param, "the name of a parameter")));
}

void BlockBuild::add_auxiliary(const lamina_auxiliary_t* from) {
  refuse_in_region("a loss or metric");
  refuse_in_lowering("a loss or metric");
  const lamina_auxiliary_t given = abi::copy(from, "lamina_auxiliary_t");
  AuxDesc out;
  out.kind = enumerator<AuxDesc::Kind>(given.kind, LAMINA_CAPABILITY_AUXILIARY, "its kind");
  out.reduce = enumerator<AuxDesc::Reduce>(given.reduce, LAMINA_CAPABILITY_REDUCE, "its reduction");
  out.name = abi::name(given.name, "its name");
  out.value = tensor(given.value, fmt::format("the value of '{}'", out.name));
  const bool is_loss = out.kind == AuxDesc::Kind::loss;
  if (given.other != 0) {
    if (!is_loss) abi::refuse("metric '{}' has two values; only losses can have two", out.name);
    out.other = tensor(given.other, fmt::format("the other value of '{}'", out.name));
    if (out.other.shape() != out.value.shape())
      throw abi::ContractError(
          LAMINA_ERROR_SHAPE,
          fmt::format("the values of the loss '{}' must have one shape, got {} and {}", out.name,
                      to_string(out.value.type()), to_string(out.other.type())));
  } else if (is_loss && out.value.ndim() != 0) {
    throw abi::ContractError(LAMINA_ERROR_SHAPE,
                             fmt::format("the loss '{}' must be a scalar, got {}", out.name,
                                         to_string(out.value.type())));
  }
  if (is_loss && out.reduce == AuxDesc::Reduce::max)
    abi::refuse("the loss '{}' is reduced by a maximum; expected a sum or a mean", out.name);
  if (!is_floating(out.value.dtype()))
    throw abi::ContractError(
        LAMINA_ERROR_DTYPE,
        fmt::format("'{}' must be floating-point, got {}", out.name, to_string(out.value.type())));
  out.weight_key = abi::text(given.weight_key, "its weight key");
  require_number_key(out.weight_key, fmt::format("the weight of '{}'", out.name));
  trace_.add_aux(out);
}

void BlockBuild::update(const lamina_update_t* from) {
  refuse_in_region("an update");
  refuse_in_lowering("an update");
  const lamina_update_t given = abi::copy(from, "lamina_update_t");
  UpdateDesc out;
  out.rule = enumerator<UpdateDesc::Rule>(given.rule, LAMINA_CAPABILITY_UPDATE, "its rule");
  out.param = abi::text(given.param, "the name of a parameter");
  const auto known = params_by_name_.find(out.param);
  if (known == params_by_name_.end())
    abi::refuse("parameter '{}' is not declared in this block", out.param);
  out.value = tensor(given.value, fmt::format("the update of '{}'", out.param));
  const Shape& shape = params_[known->second.first].shape;
  if (out.value.shape() != shape)
    throw abi::ContractError(LAMINA_ERROR_SHAPE,
                             fmt::format("the update of '{}' must be {}, got {}", out.param,
                                         to_string(shape), to_string(out.value.type())));
  out.rate_key = abi::text(given.rate_key, "its rate key");
  require_number_key(out.rate_key, fmt::format("the rate of '{}'", out.param));
  trace_.update(out);
}

std::string BlockBuild::scope_path() const {
  std::string out;
  for (const std::string& scope : scopes_)
    if (!scope.empty()) out += (out.empty() ? "" : ".") + scope;
  return out;
}

std::string BlockBuild::full_name(const lamina_str_t& name, std::string_view what) const {
  const std::string own = abi::name(name, what);
  const std::string scope = scope_path();
  return scope.empty() ? own : scope + "." + own;
}

// A name that is unknown to this host may come from a newer names.h; it has no effect here.
bool BlockBuild::check_known(const std::string& name, std::span<const std::string_view> known,
                             std::string_view what, std::string_view effect) const {
  const PluginIdentity& plugin = family_.plugin();
  if (std::find(known.begin(), known.end(), name) != known.end() ||
      name.starts_with(plugin.id + "."))
    return true;
  const std::string nearest =
      nearest_name(name, std::vector<std::string>(known.begin(), known.end()));
  warn_once(fmt::format(
      "plugin '{}' {}, block '{}': unknown {} '{}': {}; {}begin a private name with '{}.'",
      plugin.id, plugin.version, block_.name, what, name, effect,
      nearest.empty() ? "" : "did you mean '" + nearest + "'? Otherwise ", plugin.id));
  return false;
}

AxisId BlockBuild::axis(const std::string& name) const {
  if (name.empty() || !check_known(name, axis_names(), "axis", "nothing is split along it"))
    return 0;
  return intern_axis(name);
}

std::vector<AxisId> BlockBuild::axis_list(const lamina_span_t& names, std::size_t num_dims,
                                          std::string_view what) const {
  const std::vector<std::string> given = abi::texts(names, fmt::format("the axes of {}", what));
  if (given.size() != num_dims)
    abi::refuse("{} has {} dims but {} axes; every dim needs one", what, num_dims, given.size());
  std::vector<AxisId> out;
  for (const std::string& name : given) out.push_back(axis(name));
  return out;
}

void BlockBuild::require_number_key(const std::string& key, std::string_view what) const {
  if (key.empty()) return;
  const ModelKey* declared = family_.find_own_key(key);
  if (declared == nullptr)
    abi::refuse("{} is the key '{}', which the family does not declare", what, key);
  if (declared->kind != LAMINA_KIND_FLOAT)
    abi::refuse("{} is the key '{}', which is {}; expected a number", what, key,
                abi::kind_name(declared->kind));
}

void BlockBuild::set_origin(const abi::Where& at) {
  const std::string scope =
      scopes_.empty() ? block_.name : fmt::format("{}/{}", block_.name, scope_path());
  const Origin wanted{scope, at.file, at.line};
  const auto& current = trace_.graph().origin();
  if (current && current->scope == wanted.scope && current->file == wanted.file &&
      current->line == wanted.line)
    return;
  trace_.graph().set_origin(std::make_shared<const Origin>(wanted));
}

}  // namespace lamina::registry
