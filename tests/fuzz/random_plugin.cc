#include "fuzz/random_plugin.h"

#include <algorithm>
#include <memory>
#include <string>

#include "lamina/ext/auxiliary.h"
#include "lamina/ext/time_region.h"
#include "registry/abi_read.h"
#include "registry/extensions.h"

namespace lamina::fuzz {
namespace {

constexpr int kMaxCalls = 32;

template <typename Api>
const Api& extension(std::string_view id) {
  return *static_cast<const Api*>(registry::extension(registry::abi::str(id)));
}
const lamina_auxiliary_api_t& auxiliary() {
  return extension<lamina_auxiliary_api_t>(LAMINA_AUXILIARY_ID);
}

Bytes* bytes = nullptr;  // the bytes of the block that is being built

lamina_status_t build(void*, lamina_build_t* build, const lamina_config_t*, const lamina_io_t* io) {
  return Caller(*bytes, build, io).run();
}

}  // namespace

void read_from(Bytes& from) { bytes = &from; }

const registry::Family& family() {
  const auto text = [](std::string_view s) { return registry::abi::str(s); };
  static const auto key = [&](std::string_view name, std::int64_t value) {
    lamina_key_t out{};
    out.size = sizeof out;
    out.type = LAMINA_KIND_INT;
    out.name = text(name);
    out.doc = text("A number.");
    out.fallback.type = LAMINA_KIND_INT;
    out.fallback.v.i = value;
    return out;
  };
  static const lamina_key_t keys[] = {key(LAMINA_CONFIG_VOCAB_SIZE, kVocab),
                                      key(LAMINA_CONFIG_HIDDEN_SIZE, kWidth),
                                      key(LAMINA_CONFIG_NUM_LAYERS, kLayers)};
  static const lamina_block_t block = [&] {
    lamina_block_t out{};
    out.size = sizeof out;
    out.id = 1;
    out.name = text("any");
    out.build = build;
    return out;
  }();
  static const lamina_family_t table = [&] {
    lamina_family_t out{};
    out.size = sizeof out;
    out.name = text("any");
    out.keys = {keys, std::size(keys), sizeof keys[0]};
    out.blocks = {&block, 1, sizeof block};
    out.plan = [](void*, const lamina_config_t*, lamina_reply_t*) {
      return lamina_status_t{LAMINA_OK};
    };
    out.options = out.plan;
    return out;
  }();
  static const registry::Family made(table, std::make_shared<registry::PluginIdentity>());
  return made;
}

Caller::Caller(Bytes& bytes, lamina_build_t* build, const lamina_io_t* io)
    : bytes_(bytes), build_(build), api_(*build->api), io_(*io) {
  for (std::uint32_t i = 0; i < io_.n_carry; ++i) take(io_.carry_in[i]);
}

lamina_status_t Caller::run() {
  for (int i = 0; i < kMaxCalls && !bytes_.done() && status_ == LAMINA_OK; ++i) call();
  for (; open_scopes_ > 0 && bytes_.below(16) != 15; --open_scopes_)
    keep(api_.scope(build_, {}, 0));
  // Values that are not read would not be computed.
  if (status_ == LAMINA_OK && bytes_.below(8) != 7) add_all();
  for (std::uint32_t i = 0; i < io_.n_out; ++i) io_.carry_out[i] = result(i);
  return status_;
}

void Caller::take(lamina_tensor_t handle) {
  lamina_type_t type{};
  type.size = sizeof type;
  if (status_ != LAMINA_OK || api_.type(build_, handle, nullptr, &type) != LAMINA_OK) return;
  Type known{DType::f32, {}, {}};
  if (type.dtype != 0) known.dtype = *registry::abi::dtype(type.dtype, "a type");
  known.shape = Shape(std::span<const std::int64_t>(type.dims, type.ndim));
  handles_.push_back(handle);
  types_.push_back(known);
}

std::int64_t Caller::integer() {
  if (bytes_.below(4) == 0) {
    const Shape& shape = some_type().shape;
    if (shape.ndim() > 0)
      return shape[static_cast<int>(bytes_.below(static_cast<std::size_t>(shape.ndim())))];
  }
  return bytes_.pick(kIntegers);
}

std::vector<std::int64_t> Caller::sizes() {
  const Shape& shape = some_type().shape;
  std::vector<std::int64_t> out(shape.dims().begin(), shape.dims().end());
  switch (bytes_.below(8)) {
    case 0:
      break;
    case 1:
      if (out.size() > 1) std::swap(out.front(), out[bytes_.below(out.size())]);
      break;
    case 2:  // merges two dims
      if (out.size() > 1) {
        const std::size_t at = bytes_.below(out.size() - 1);
        out[at] *= std::min<std::int64_t>(out[at + 1], kHuge);
        out.erase(out.begin() + static_cast<std::ptrdiff_t>(at) + 1);
      }
      break;
    case 3:  // splits a dim
      if (!out.empty()) {
        const std::size_t at = bytes_.below(out.size());
        const std::int64_t part = out[at] % 2 == 0 ? 2 : 1;
        out[at] /= part;
        out.insert(out.begin() + static_cast<std::ptrdiff_t>(at) + 1, part);
      }
      break;
    case 4:
      if (!out.empty()) out[bytes_.below(out.size())] = bytes_.pick(kSizes);
      break;
    case 5:
      out.assign(bytes_.below(5), 1);
      for (std::int64_t& size : out) size = bytes_.pick(kSizes);
      break;
    case 6:
      out.assign(bytes_.below(10), 1);
      for (std::int64_t& size : out) size = integer();
      break;
    default:  // permutes the dims
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::int64_t>(i);
      if (out.size() > 1) std::swap(out[bytes_.below(out.size())], out.back());
      break;
  }
  return out;
}

void Caller::call() {
  switch (bytes_.below(16)) {
    case 10:
    case 11:
      return param();
    case 12:
      return input();
    case 13:
      return bytes_.below(2) ? scope() : name_it();
    case 14:
      if (bytes_.below(2)) return update();
      return add_auxiliary(bytes_.below(8) == 7 ? LAMINA_AUXILIARY_LOSS : LAMINA_AUXILIARY_METRIC,
                           pick_handle(), static_cast<std::uint32_t>(bytes_.below(4)));
    case 15:
      return bytes_.below(4) ? odd() : region();
    default:
      return emit();
  }
}

void Caller::param() {
  const std::vector<std::int64_t> dims = sizes();
  const std::vector<lamina_str_t> axes(dims.size(), registry::abi::str(bytes_.pick(kAxes)));
  const std::string name = "p" + std::to_string(bytes_.below(64) == 0 ? 0 : next_name_++);
  lamina_param_t out{};
  out.size = sizeof out;
  out.role = static_cast<std::uint32_t>(bytes_.below(10));
  out.name = registry::abi::str(name);
  out.dims = span(dims);
  out.axes = span(axes);
  out.init = static_cast<std::uint32_t>(1 + bytes_.below(10));
  out.init_a = 1;
  out.init_b = 2;
  const unsigned more = bytes_.next();
  if (more >= 192) out.dtype = more % 9;
  if (more == 191) out.init_a = bytes_.pick(kNumbers);
  if (more == 190) out.flags = bytes_.next();
  lamina_tensor_t handle = 0;
  keep(api_.param(build_, &out, nullptr, &handle));
  take(handle);
}

void Caller::input() {
  lamina_tensor_t handle = 0;
  keep(api_.input(build_, static_cast<std::uint32_t>(bytes_.below(10)), nullptr, &handle));
  if (handle != 0) take(handle);
}

void Caller::scope() {
  if (open_scopes_ > 0 && bytes_.below(2)) {
    --open_scopes_;
    return keep(api_.scope(build_, {}, 0));
  }
  ++open_scopes_;
  keep(api_.scope(build_, registry::abi::str("s"), 1));
}

void Caller::name_it() {
  static constexpr std::string_view kTags[] = {LAMINA_TAG_OUT_PROJ, "query_proj", "no such tag"};
  lamina_tensor_t handle = 0;
  const std::size_t at = bytes_.below(handles_.size());
  if (bytes_.below(2)) {
    keep(api_.tag(build_, handles_[at], registry::abi::str(bytes_.pick(kTags)), nullptr, &handle));
  } else {
    const std::vector<lamina_str_t> axes(static_cast<std::size_t>(types_[at].ndim()),
                                         registry::abi::str(LAMINA_AXIS_EMBED));
    keep(api_.axes(build_, handles_[at], span(axes), nullptr, &handle));
  }
  take(handle);
}

void Caller::add_auxiliary(std::uint32_t kind, lamina_tensor_t value, std::uint32_t reduce) {
  const std::string name = "m" + std::to_string(next_name_++);
  lamina_auxiliary_t out{};
  out.size = sizeof out;
  out.kind = kind;
  out.name = registry::abi::str(name);
  out.value = value;
  out.reduce = reduce;
  keep(auxiliary().add(build_, &out, nullptr));
}

void Caller::add_all() {
  for (std::size_t i = 0; i < handles_.size() && status_ == LAMINA_OK; ++i)
    if (is_floating(types_[i].dtype))
      add_auxiliary(LAMINA_AUXILIARY_METRIC, handles_[i], LAMINA_REDUCE_MEAN);
}

void Caller::update() {
  const std::string name = "p" + std::to_string(bytes_.below(4));
  lamina_update_t out{};
  out.size = sizeof out;
  out.rule = static_cast<std::uint32_t>(bytes_.below(5));
  out.param = registry::abi::str(name);
  out.value = pick_handle();
  keep(auxiliary().update(build_, &out, nullptr));
}

// A region over time with one carry: some calls, then any values as its results.
void Caller::region() {
  const auto& api = extension<lamina_time_region_api_t>(LAMINA_TIME_REGION_ID);
  state_of(nullptr, {}, LAMINA_STATE_CUSTOM);
  const std::vector<lamina_state_t> states{state_};
  const std::vector<lamina_tensor_t> inputs{pick_handle()};
  lamina_tensor_t carry = 0, token = 0, output = 0;
  lamina_time_region_t begin{};
  begin.size = sizeof begin;
  begin.states = span(states);
  begin.inputs = span(inputs);
  begin.carries = &carry;
  begin.tokens = &token;
  if (status_ == LAMINA_OK) keep(api.begin(build_, &begin, nullptr));
  if (status_ != LAMINA_OK) return;
  const std::size_t outside = handles_.size();
  take(carry);
  take(token);
  for (std::size_t i = bytes_.below(4); i > 0 && status_ == LAMINA_OK; --i) emit();
  if (bytes_.below(16) == 15) return;  // the region is not closed
  const std::vector<lamina_tensor_t> carries{bytes_.below(4) ? carry : pick_handle()};
  const std::vector<lamina_tensor_t> results{bytes_.below(4) ? handles_.back() : pick_handle()};
  lamina_time_results_t end{};
  end.size = sizeof end;
  end.carries = span(carries);
  end.results = span(results);
  end.outputs = &output;
  keep(api.end(build_, &end, nullptr));
  // Values of the body are valid only inside it; sometimes they are used outside.
  if (bytes_.below(8) != 7) {
    handles_.resize(std::min(outside, handles_.size()));
    types_.resize(handles_.size());
  }
  take(output);
}

void Caller::odd() {
  lamina_tensor_t handle = 0;
  const std::vector<double> values(bytes_.below(4), bytes_.pick(kNumbers));
  switch (bytes_.below(5)) {
    case 0:
      keep(api_.layer_constant(build_, registry::abi::str("c"), span(values), nullptr, &handle));
      return take(handle);
    case 1:
      keep(api_.emit(build_, nullptr, nullptr));
      return;
    case 2:
      keep(api_.tag(build_, integer_as_handle(), registry::abi::str("query_proj"), nullptr,
                    &handle));
      return take(handle);
    case 3: {
      const auto status = static_cast<lamina_status_t>(bytes_.below(16));
      const bool memory = status == LAMINA_ERROR_MEMORY;  // not a fault of the plugin
      api_.fail(build_, memory ? LAMINA_ERROR_INTERNAL : status, registry::abi::str("no"), nullptr);
      status_ = LAMINA_ERROR_INTERNAL;
      return;
    }
    default:
      return state_of(nullptr, {}, 0);
  }
}

lamina_tensor_t Caller::integer_as_handle() {
  return handles_[0] + static_cast<lamina_tensor_t>(bytes_.pick(kIntegers));
}

lamina_tensor_t Caller::result(std::uint32_t i) {
  if (bytes_.below(32) == 31) return bytes_.below(2) ? 0 : pick_handle();
  for (std::size_t at = handles_.size(); at-- > 0;)
    if (types_[at] == types_[i]) return handles_[at];
  return handles_[i];
}

}  // namespace lamina::fuzz
