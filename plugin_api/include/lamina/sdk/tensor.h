// Values of a trace: tensors, decode states, and the scopes that own parameters.
//
//   Tensor w = s.param("weight", {out, in}, {.axes = {axis::mlp, axis::embed}});
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "lamina/ext/export.h"
#include "lamina/sdk/extension.h"

#pragma GCC visibility push(hidden)
namespace lamina::sdk {

// A value of the graph that is being built: a handle, copied freely, valid during one build call. A
// default-constructed one means "none" for optional inputs.
struct Tensor {
  lamina_build_t* build = nullptr;
  lamina_tensor_t handle = 0;

  explicit operator bool() const { return handle != 0; }
  // Sizes, always known; B and T differ between traces of a block.
  std::vector<std::int64_t> shape(At at = At::current()) const;
  // The size of a dim; negative i counts from the last: dim(-1).
  std::int64_t dim(int i, At at = At::current()) const;
  // LAMINA_DTYPE_*.
  std::uint32_t dtype(At at = At::current()) const;
};

// The decode state of a layer, kept between decoded tokens.
struct State {
  lamina_build_t* build = nullptr;
  lamina_state_t handle = 0;
};

// Logical axes: axis::embed and so on, the names of axes.def.
namespace axis {
#define LAMINA_AXIS(name, text) inline constexpr std::string_view name = text;
#include "lamina/axes.def"
inline constexpr std::string_view none = "";
}  // namespace axis

// Names of values: tags::query_proj and so on, from tags.def.
namespace tags {
#define LAMINA_TAG(name, text) inline constexpr std::string_view name = text;
#include "lamina/tags.def"
}  // namespace tags

// The purpose of a parameter.
enum class Role : std::uint32_t {
  weight = LAMINA_ROLE_WEIGHT,
  bias = LAMINA_ROLE_BIAS,
  norm = LAMINA_ROLE_NORM,
  embedding = LAMINA_ROLE_EMBEDDING,
  router = LAMINA_ROLE_ROUTER,
  scalar = LAMINA_ROLE_SCALAR,
  conv = LAMINA_ROLE_CONV,
};

// The initial values of a parameter.
struct Init {
  std::uint32_t kind = LAMINA_INIT_ZEROS;
  double a = 0, b = 0;
};
namespace init {
inline constexpr Init zeros{LAMINA_INIT_ZEROS}, ones{LAMINA_INIT_ONES};
constexpr Init constant(double value) { return {LAMINA_INIT_CONSTANT, value}; }
constexpr Init normal(double deviation) { return {LAMINA_INIT_NORMAL, deviation}; }
constexpr Init uniform(double low, double high) { return {LAMINA_INIT_UNIFORM, low, high}; }
constexpr Init log_uniform(double low, double high) { return {LAMINA_INIT_LOG_UNIFORM, low, high}; }
constexpr Init fan_in(double gain = 1) { return {LAMINA_INIT_FAN_IN, gain}; }
// 0, 1, .. count - 1, 0, 1, .. over all elements.
constexpr Init cycle(std::int64_t count) { return {LAMINA_INIT_CYCLE, static_cast<double>(count)}; }
}  // namespace init

struct ParamOptions {
  std::vector<std::string_view> axes = {};  // one per dim
  Role role = Role::weight;
  Init init = init::zeros;
  std::uint32_t flags = 0;      // LAMINA_PARAM_*
  std::string_view group = {};  // a name for learning rates and masks
  std::uint32_t dtype = 0;      // LAMINA_DTYPE_*; 0 = the run's type. Integers are never trained
};

struct StateOptions {
  std::vector<std::string_view> axes = {};  // one per dim
  std::int64_t window = 0;                  // tokens that are read; 0 = all
  std::int64_t chunk = 0;                   // only the current chunk is read; 0 = all
  std::uint32_t flags = 0;                  // LAMINA_STATE_FLAG_*
  std::int64_t stride = 1;                  // tokens that share a slot
};

// A place in the tree of parameter names. A function that takes a Scope owns parameters; one that
// takes none is an op. `s / "wq"` is the place "wq" below s; `s / "experts" / "0"` nests.
class Scope {
 public:
  Scope(lamina_build_t* build, double init_std) : build_(build), init_std_(init_std) {}

  Scope operator/(std::string_view name) const;
  const std::string& path() const { return path_; }
  lamina_build_t* build() const { return build_; }
  // The same place for parameters that each layer has for itself, in a layer that uses the
  // parameters of another (Position::params_of): an adapter per use.
  //   Tensor y = linear(s.unshared() / "adapter" / "up", h, d);
  Scope unshared() const;
  // The same place for matrices that --quantize leaves plain unless a rule names them: few values
  // on which much depends, eg gates and weights of choices.
  //   Tensor gate = linear((s / "gate").unquantized(), x, d);
  Scope unquantized() const;
  // The standard deviation of the initial weights of this model.
  double init_std() const { return init_std_; }

  Tensor param(std::string_view name, std::initializer_list<std::int64_t> dims,
               const ParamOptions& options, At at = At::current()) const;
  // Declares a decode state. kind: LAMINA_STATE_*, which defines the meaning of dims.
  State state(std::uint32_t kind, std::string_view name, const std::vector<std::int64_t>& dims,
              const StateOptions& options = {}, At at = At::current()) const;
  // A scalar with the element type of activations: values[i] in layer i of the model.
  Tensor layer_constant(std::string_view name, const std::vector<double>& values,
                        At at = At::current()) const;

  // Gives the value of parameter `name` in the family that this one is exported as
  // (Family::exports_as).
  void exported_value(std::string_view name, Tensor value, At at = At::current()) const;

  // While it exists, errors of ops that are added name this scope.
  class Open {
   public:
    explicit Open(const Scope& s);
    ~Open() { build_->api->scope(build_, {}, 0); }
    Open(const Open&) = delete;
    Open& operator=(const Open&) = delete;

   private:
    lamina_build_t* build_;
  };

 private:
  std::string full(std::string_view name) const {
    return path_.empty() ? std::string(name) : path_ + "." + std::string(name);
  }

  lamina_build_t* build_;
  double init_std_;
  std::string path_;
  std::uint32_t param_flags_ = 0;  // LAMINA_PARAM_*, of all parameters below
};

// Returns x under a name for rematerialisation policies and `lamina verify`, one of tags::*.
Tensor tag(Tensor x, std::string_view name, At at = At::current());
// Returns x with logical axes of activations, one per dim; axis::none = no name.
Tensor with_axes(Tensor x, const std::vector<std::string_view>& names, At at = At::current());

// ---------------------------------------------------------------------------------------------

inline std::vector<std::int64_t> Tensor::shape(At at) const {
  const lamina_where_t where = to_where(at);
  lamina_type_t type{};
  type.size = sizeof type;
  check(build->api->type(build, handle, &where, &type));
  return {type.dims, type.dims + type.ndim};
}

inline std::uint32_t Tensor::dtype(At at) const {
  const lamina_where_t where = to_where(at);
  lamina_type_t type{};
  type.size = sizeof type;
  check(build->api->type(build, handle, &where, &type));
  return type.dtype;
}

inline std::int64_t Tensor::dim(int i, At at) const {
  const std::vector<std::int64_t> sizes = shape(at);
  const int count = static_cast<int>(sizes.size());
  const int index = i < 0 ? i + count : i;
  if (index < 0 || index >= count)
    raise(Error(LAMINA_ERROR_SHAPE,
                "dim " + std::to_string(i) + " is out of range: the tensor has " +
                    std::to_string(count) + " dims",
                at));
  return sizes[static_cast<std::size_t>(index)];
}

inline std::vector<lamina_str_t> to_strs(const std::vector<std::string_view>& texts) {
  std::vector<lamina_str_t> out;
  for (std::string_view text : texts) out.push_back(to_str(text));
  return out;
}

inline Scope Scope::operator/(std::string_view name) const {
  Scope out = *this;
  out.path_ = full(name);
  return out;
}

inline Scope Scope::unshared() const {
  Scope out = *this;
  out.param_flags_ |= LAMINA_PARAM_UNSHARED;
  return out;
}

inline Scope Scope::unquantized() const {
  Scope out = *this;
  out.param_flags_ |= LAMINA_PARAM_NO_QUANTIZE;
  return out;
}

inline Tensor Scope::param(std::string_view name, std::initializer_list<std::int64_t> dims,
                           const ParamOptions& options, At at) const {
  const std::string full_name = full(name);
  const std::vector<lamina_str_t> axes = to_strs(options.axes);
  const lamina_where_t where = to_where(at);
  lamina_param_t desc{};
  desc.size = sizeof desc;
  desc.role = static_cast<std::uint32_t>(options.role);
  desc.name = to_str(full_name);
  desc.dims = to_span(dims);
  desc.axes = to_span(axes);
  desc.init = options.init.kind;
  desc.init_a = options.init.a;
  desc.init_b = options.init.b;
  desc.flags = options.flags | param_flags_;
  // An older host, which does not know the flag, quantises the matrix.
  if (build_->api->abi_minor < 9) desc.flags &= ~LAMINA_PARAM_NO_QUANTIZE;
  if ((desc.flags & LAMINA_PARAM_UNSHARED) && build_->api->abi_minor < 8)
    raise(Error(LAMINA_ERROR_UNSUPPORTED,
                "parameter '" + full_name +
                    "' is unshared, which needs plugin ABI 0.8; this host "
                    "is older",
                at));
  desc.group = to_str(options.group);
  desc.dtype = options.dtype;
  Tensor out{build_};
  check(build_->api->param(build_, &desc, &where, &out.handle));
  return out;
}

inline State Scope::state(std::uint32_t kind, std::string_view name,
                          const std::vector<std::int64_t>& dims, const StateOptions& options,
                          At at) const {
  const std::string full_name = full(name);
  const std::vector<lamina_str_t> axes = to_strs(options.axes);
  const lamina_where_t where = to_where(at);
  lamina_state_desc_t desc{};
  desc.size = sizeof desc;
  desc.kind = kind;
  desc.name = to_str(full_name);
  desc.dims = to_span(dims);
  desc.axes = to_span(axes);
  desc.window = options.window;
  desc.chunk = options.chunk;
  desc.flags = options.flags;
  desc.stride = options.stride;
  State out{build_};
  check(build_->api->state(build_, &desc, &where, &out.handle));
  return out;
}

inline Tensor Scope::layer_constant(std::string_view name, const std::vector<double>& values,
                                    At at) const {
  const std::string full_name = full(name);
  const lamina_where_t where = to_where(at);
  Tensor out{build_};
  check(
      build_->api->layer_constant(build_, to_str(full_name), to_span(values), &where, &out.handle));
  return out;
}

inline void Scope::exported_value(std::string_view name, Tensor value, At at) const {
  const std::string full_name = full(name);
  const lamina_where_t where = to_where(at);
  check(extension<lamina_export_api_t>(LAMINA_EXPORT_ID, at)
            .value(build_, value.handle, to_str(full_name), &where));
}

inline Scope::Open::Open(const Scope& s) : build_(s.build()) {
  check(build_->api->scope(build_, to_str(s.path()), 1));
}

inline Tensor tag(Tensor x, std::string_view name, At at) {
  const lamina_where_t where = to_where(at);
  Tensor out{x.build};
  check(x.build->api->tag(x.build, x.handle, to_str(name), &where, &out.handle));
  return out;
}

inline Tensor with_axes(Tensor x, const std::vector<std::string_view>& names, At at) {
  const std::vector<lamina_str_t> axes = to_strs(names);
  const lamina_where_t where = to_where(at);
  Tensor out{x.build};
  check(x.build->api->axes(x.build, x.handle, to_span(axes), &where, &out.handle));
  return out;
}

}  // namespace lamina::sdk
#pragma GCC visibility pop
