// Building a block: the code around the plugin's function, and the errors when it fails. The calls
// that the plugin makes are in build_calls.cc.
#include "registry/trace.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <new>

#include "core/error.h"
#include "registry/block_build.h"
#include "registry/letters.h"
#include "registry/plugin_call.h"

namespace lamina::registry {
namespace {

constexpr int kIndexBits = 24, kGenerationBits = 16;
constexpr std::uint64_t kIndexMask = (1u << kIndexBits) - 1;
constexpr std::uint64_t kGenerationMask = (1u << kGenerationBits) - 1;
constexpr std::uint64_t kTagMask = (1u << 23) - 1;

std::uint64_t next_tag() {
  static std::atomic<std::uint64_t> last{0};
  std::uint64_t tag = 0;
  while (tag == 0) tag = ++last & kTagMask;
  return tag;
}

// Returns whether `text` contains `number` as a separate number: 32 is none in "f32".
bool mentions(const std::string& text, const std::string& number) {
  for (auto at = text.find(number); at != text.npos; at = text.find(number, at + 1)) {
    const std::size_t end = at + number.size();
    const char before = at == 0 ? ' ' : text[at - 1];
    const bool begins = !is_digit(before) && !is_letter(before) && before != '.';
    const bool ends = end == text.size() || !is_digit(text[end]);
    if (begins && ends) return true;
  }
  return false;
}

}  // namespace

std::string export_tag(std::string_view param) { return "exports." + std::string(param); }

BlockTrace::BlockTrace(Graph& graph) : graph_(graph), tag_(next_tag()) {}
BlockTrace::~BlockTrace() = default;

std::vector<Tensor> BlockTrace::add_op(const Op& op, std::span<const Tensor> inputs,
                                       const NamedAttrs& attrs, std::optional<int> state) {
  LAMINA_ASSERT(!state);
  return graph_.add_node(op, inputs, attrs);
}

bool BlockTrace::supplies(const Op&, std::size_t) const { return false; }

std::vector<Tensor> BlockTrace::begin_region(std::span<const int>, std::span<const Tensor>) {
  throw PluginError({"host", "a region over time is allowed only in a block of layers", {}});
}
std::vector<Tensor> BlockTrace::end_region(std::span<const Tensor>, std::span<const Tensor>) {
  throw PluginError({"host", "a region over time is allowed only in a block of layers", {}});
}

std::vector<Tensor> BlockTrace::begin_custom(std::span<const Tensor>) {
  throw PluginError({"host", "a custom op is allowed only in a block of a model", {}});
}
std::vector<Tensor> BlockTrace::end_custom(const ops::CustomOp&, const NamedAttrs&,
                                           std::span<const Tensor>) {
  throw PluginError({"host", "a custom op is allowed only in a block of a model", {}});
}

Tensor BlockTrace::tag(Tensor value, const std::string& name) {
  graph_.set_tag(value.id, name);
  return value;
}

Tensor BlockTrace::annotate(Tensor value, std::span<const AxisId> axes) {
  graph_.set_axes(value.id, axes);
  return value;
}

BlockResult build_block(const Family& family, const Block& block, const ModelConfig& config,
                        BlockTrace& trace, const BlockRequest& request) {
  return BlockBuild(family, block, config, trace, request).run();
}

BlockBuild::~BlockBuild() {
  handle_.build = nullptr;
  trace_.graph().set_origin(outer_origin_);
}

BlockResult BlockBuild::run() {
  const auto block = abi::copy(block_.source, "lamina_block_t");
  std::vector<std::optional<Type>> wanted = request_.results;
  if (wanted.empty())
    for (Tensor carry : request_.carries) wanted.emplace_back(carry.type());
  std::vector<lamina_tensor_t> in, per_layer, out(wanted.size());
  for (Tensor carry : request_.carries) in.push_back(hand_out(carry));
  for (Tensor element : request_.per_layer) per_layer.push_back(hand_out(element));
  lamina_io_t io{};
  io.size = sizeof io;
  io.n_carry = static_cast<std::uint32_t>(in.size());
  io.carry_in = in.data();
  io.carry_out = out.data();
  io.n_out = static_cast<std::uint32_t>(out.size());
  io.n_per_layer = static_cast<std::uint32_t>(per_layer.size());
  io.per_layer = per_layer.data();

  lamina_status_t status = LAMINA_OK;
  const auto threw = [&](std::string how) {
    fail({.text = {fmt::format("block '{}'", block_.name),
                   "its build threw an exception" + how + "; exceptions must not leave a plugin",
                   {}}});
  };
  try {
    const PluginCall call(family_.plugin(), family_.name(),
                          fmt::format("build of block '{}'", block_.name));
    status = block.build(block.user, &handle_, view_.handle(), &io);
    if (const std::string change = call.change(); !change.empty())
      fail({.text = {fmt::format("block '{}'", block_.name),
                     "its build " + change,
                     {std::string(kLeaveTheProcess)}}});
  } catch (const std::bad_alloc&) {
    throw;  // not the plugin's fault
  } catch (const std::exception& thrown) {
    threw(fmt::format(" ({})", thrown.what()));
  } catch (...) {
    threw("");
  }

  if ((failure_ ? failure_->status : status) == LAMINA_ERROR_MEMORY) throw std::bad_alloc();
  const std::string where = fmt::format("block '{}'", block_.name);
  if (!failure_ && !view_.unknown_key().empty())
    fail({.text = {where,
                   fmt::format("reads the key '{}', which the family does not declare",
                               view_.unknown_key()),
                   {}}});
  if (failure_) raise(*failure_);
  if (status == LAMINA_ERROR_TRACE)
    raise({.text = {where,
                    "its build uses a tensor, state or lamina_build_t of a build that has ended; "
                    "each is valid until the build that it was given to returns (C-6 of "
                    "docs/plugin_requirements.md)",
                    {}}});
  if (status != LAMINA_OK)
    raise({.text = {where,
                    fmt::format("its build failed with status {} ({}) and no message", status,
                                abi::status_name(status)),
                    {}}});
  if (!regions_.empty() && regions_.back().second == 0)
    raise({.text = {where,
                    "its build leaves a region over time open; every begin needs an "
                    "end",
                    {}}});
  for (std::size_t i = 0; i < states_.size(); ++i)
    if (states_[i].kind == StateKind::custom &&
        std::ranges::find(region_states_, i) == region_states_.end())
      raise({.text = {where,
                      fmt::format("its build declares the state '{}' of kind {}, which no region "
                                  "over time uses",
                                  states_[i].name, ops::to_string(states_[i].kind)),
                      {}}});
  if (!scopes_.empty())
    raise({.text = {where,
                    fmt::format("its build leaves the scope '{}' open; every scope must be closed",
                                scopes_.back()),
                    {}}});
  return {take_results(out, wanted), std::move(params_), std::move(states_)};
}

std::vector<Tensor> BlockBuild::take_results(const std::vector<lamina_tensor_t>& handles,
                                             const std::vector<std::optional<Type>>& wanted) const {
  std::vector<Tensor> out;
  const std::string where = fmt::format("block '{}'", block_.name);
  for (std::size_t i = 0; i < handles.size(); ++i) {
    const std::string what = fmt::format("carry_out[{}]", i);
    if (handles[i] == 0)
      raise({.text = {where,
                      fmt::format("its build leaves {} unset; it must be a tensor {}", what,
                                  wanted[i] ? to_string(*wanted[i]) : "of any type"),
                      {}}});
    try {
      out.push_back(tensor(handles[i], what));
    } catch (const abi::ContractError& error) {
      raise({.status = error.status(), .text = {where, error.what(), {}}});
    }
    if (wanted[i] && out.back().type() != *wanted[i])
      raise({.status = LAMINA_ERROR_SHAPE,
             .text = {where,
                      fmt::format("{} must be {}{}, got {}", what, to_string(*wanted[i]),
                                  request_.results.empty() ? " like the incoming carry" : "",
                                  to_string(out.back().type())),
                      {}}});
  }
  return out;
}

void BlockBuild::fail(BuildFailure failure) {
  if (failure_) return;
  failure_ = std::move(failure);
  if (lowering_)
    failure_->text.notes.push_back(fmt::format("{}: the use of op '{}', which has this lowering",
                                               lowering_->used_at, lowering_->op));
}

void BlockBuild::raise(const BuildFailure& failure) const {
  if (failure.ours) std::rethrow_exception(failure.ours);
  ErrorText text = failure.text;
  const std::string place =
      to_string(Origin{.scope = failure.scope, .file = failure.at.file, .line = failure.at.line});
  std::vector<std::string> notes;
  if (!place.empty()) notes.push_back(place);
  std::string block = fmt::format("block '{}' of family '{}'", block_.name, family_.name());
  if (!request_.place.empty()) block += ", " + request_.place;
  notes.push_back(
      fmt::format("{}; plugin '{}' {}", block, family_.plugin().id, family_.plugin().version));
  const bool by_config = failure.status == LAMINA_ERROR_CONFIG;
  for (std::string& note : config_notes(text.what, by_config)) notes.push_back(std::move(note));
  for (std::string& note : text.notes)  // an op's note on its origin equals our first note
    if (!note.ends_with(place) || place.empty()) notes.push_back(std::move(note));
  text.notes = std::move(notes);
  if (by_config) {
    text.where = config_.where();
    throw UserError(ExitCode::usage, std::move(text));
  }
  throw PluginError(std::move(text));
}

// Returns the config values that the block read and the message names; if the error is about the
// config, also the largest one. Given values whose numbers are in the message may be the cause by
// coincidence only.
std::vector<std::string> BlockBuild::config_notes(const std::string& message,
                                                  bool about_config) const {
  constexpr std::size_t kMost = 4;
  std::vector<std::string> out, equal;
  std::string largest;
  std::int64_t most = 0;
  for (const std::string& key : view_.keys_read()) {
    const config::Value* value = view_.find(key);
    const auto* number = value ? value->get_if<std::int64_t>() : nullptr;
    if (number && *number > most) {
      most = *number;
      largest = key;
    }
    if (message.find("'" + key + "'") != message.npos) {
      if (out.size() < kMost) out.push_back("config: " + view_.describe(key));
    } else if (number && *number > 1 && view_.is_given(key) && equal.size() < kMost &&
               mentions(message, std::to_string(*number))) {
      equal.push_back(view_.describe(key));
    }
  }
  if (about_config && most > 0) {
    const std::string note = view_.describe(largest);
    std::erase(equal, note);
    if (std::ranges::find(out, "config: " + note) == out.end())
      out.insert(out.begin(), "config: " + note);
  }
  if (!equal.empty())
    out.push_back(fmt::format("keys with these numbers: {}", fmt::join(equal, ", ")));
  return out;
}

std::uint64_t BlockBuild::handle(bool is_state, std::size_t index) const {
  if (index > kIndexMask) abi::refuse("a block has more than {} tensors", kIndexMask);
  return trace_.tag_ << (kIndexBits + kGenerationBits + 1) |
         std::uint64_t{is_state} << (kIndexBits + kGenerationBits) |
         (trace_.generation_ & kGenerationMask) << kIndexBits | index;
}

std::size_t BlockBuild::index_of(std::uint64_t given, bool is_state, std::size_t count,
                                 std::string_view what) const {
  const std::uint64_t expected = handle(is_state, 0) >> kIndexBits;
  const std::uint64_t found = given >> kIndexBits;
  const std::uint64_t index = given & kIndexMask;
  if (given == 0)
    abi::refuse(
        "{} is missing; it must be a "
        "{}",
        what, is_state ? "state" : "tensor");
  if (found >> (kGenerationBits + 1) != trace_.tag_)
    abi::refuse(
        "{} is a handle of another trace; a handle is valid only in the build call that received "
        "it",
        what);
  if ((found >> kGenerationBits & 1) != std::uint64_t{is_state})
    abi::refuse("{} is the handle of a {}; it must be a {}", what, is_state ? "tensor" : "state",
                is_state ? "state" : "tensor");
  if (found != expected)
    abi::refuse(
        "{} is a handle of an earlier block; a handle is valid only in the build call that "
        "received it",
        what);
  if (index >= count) abi::refuse("{} is an invalid handle", what);
  return index;
}

lamina_tensor_t BlockBuild::hand_out(Tensor value) {
  LAMINA_ASSERT(value.graph == &trace_.graph());
  static_assert(kMaxDims >= LAMINA_MAX_DIMS + 2);  // stacked by token, stacked by layer
  if (value.ndim() > LAMINA_MAX_DIMS)
    abi::refuse("{} would have {} dims; the maximum is {}", to_string(value.type()), value.ndim(),
                LAMINA_MAX_DIMS);
  tensors_.push_back(value);
  return handle(false, tensors_.size() - 1);
}

Tensor BlockBuild::tensor(lamina_tensor_t given, std::string_view what) const {
  const std::size_t index = index_of(given, false, tensors_.size(), what);
  if (lowering_ && index < lowering_->first_tensor)
    abi::refuse("{} is a value from outside the lowering of op '{}'; make it an input of the op",
                what, lowering_->op);
  const Tensor out = tensors_[index];
  const NodeId node = out.graph->value(out.id).node;
  for (const auto& [first, end] : regions_)
    if (node != kNoNode && node >= first && node < end)
      abi::refuse(
          "{} is a value of the body of a region over time, which has ended; make it a result of "
          "the region",
          what);
  for (const Lowered& lowered : lowered_)
    if (node != kNoNode && node >= lowered.first && node < lowered.end)
      abi::refuse(
          "{} is a value of the lowering of op '{}', which has ended; make it an output of the op",
          what, lowered.op);
  return out;
}

std::size_t BlockBuild::state_index(lamina_state_t given, std::string_view what) const {
  const std::size_t index = index_of(given, true, states_.size(), what);
  if (lowering_ && index < lowering_->first_state)
    abi::refuse("{}, '{}', is declared outside the lowering of op '{}'; declare it inside", what,
                states_[index].name, lowering_->op);
  for (const Lowered& lowered : lowered_)
    if (index >= lowered.first_state && index < lowered.end_state)
      abi::refuse(
          "{}, '{}', is a state of the lowering of op '{}' and cannot be used by other "
          "ops",
          what, states_[index].name, lowered.op);
  return index;
}

}  // namespace lamina::registry
