// Reads the declarations of a plugin's custom ops and checks them when it is loaded.
#include "registry/custom_ops.h"

#include <algorithm>
#include <charconv>
#include <deque>
#include <mutex>

#include "ops/rows.h"
#include "registry/abi_ops.h"
#include "registry/abi_read.h"

namespace lamina::registry {
namespace {

constexpr std::size_t kMostOperands = 32;

std::vector<std::string_view> words(std::string_view text, const std::string& what) {
  std::vector<std::string_view> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    if (end == at) abi::refuse("{} '{}' has two spaces in a row", what, text);
    out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  if (out.size() > kMostOperands)
    abi::refuse("{} are {}; the maximum is {}", what, out.size(), kMostOperands);
  return out;
}

void check_name(std::string_view name, std::string_view word, const std::string& what) {
  const bool plain = !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
  if (!plain || (name[0] >= '0' && name[0] <= '9'))
    abi::refuse(
        "{} have '{}'; a name consists of letters, digits and '_', beginning with a "
        "letter",
        what, word);
}

void check_distinct(std::vector<std::string> names, const std::string& what) {
  std::ranges::sort(names);
  if (const auto twice = std::ranges::adjacent_find(names); twice != names.end())
    abi::refuse("{} have '{}' twice", what, *twice);
}

std::vector<OpInput> read_operands(const lamina_str_t& from, bool are_inputs,
                                   const std::string& what) {
  const std::string text = abi::text(from, what);
  std::vector<std::string> names;
  for (std::string_view word : words(text, what)) {
    names.emplace_back(word.substr(0, word.size() - (are_inputs && word.ends_with('?') ? 1 : 0)));
    check_name(names.back(), word, what);
  }
  check_distinct(std::move(names), what);
  std::vector<OpInput> out = ops::parse_operands(text);
  if (out.empty()) abi::refuse("{} are none; an op needs at least one", what);
  if (out.front().optional)
    abi::refuse(
        "{} begin with '{}?'; the first input must not be "
        "optional",
        what, out.front().name);
  return out;
}

template <typename T>
void check_default(std::string_view text, std::string_view word, const std::string& what) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    abi::refuse("{} have '{}', whose default is not a number of its kind", what, word);
}

std::vector<OpAttr> read_attributes(const lamina_str_t& from, const std::string& what) {
  const std::string text = abi::text(from, what);
  std::vector<std::string> names = {"body"};  // reserved by the host
  for (std::string_view word : words(text, what)) {
    const std::size_t colon = word.find(':');
    if (colon == word.npos) abi::refuse("{} have '{}'; expected 'name:kind=default'", what, word);
    names.emplace_back(word.substr(0, colon));
    check_name(names.back(), word, what);
    const std::size_t equals = std::min(word.find('=', colon), word.size());
    const std::string_view kind = word.substr(colon + 1, equals - colon - 1);
    const std::string_view fallback = word.substr(std::min(equals + 1, word.size()));
    if (kind == "i" || kind == "b")
      check_default<std::int64_t>(fallback, word, what);
    else if (kind == "f")
      check_default<double>(fallback, word, what);
    else if (kind != "s" && kind != "il" && kind != "fl")
      abi::refuse("{} have '{}'; expected kind i, b, f, s, il or fl", what, word);
    else if (kind != "s" && equals < word.size())
      abi::refuse("{} have '{}'; a list must not have a default", what, word);
    if (word.find('@') != word.npos)
      abi::refuse("{} have '{}'; a minor is not allowed here", what, word);
  }
  check_distinct(std::move(names), what);
  return ops::parse_attributes(text);
}

std::unique_ptr<PluginOp> read_op(const lamina_custom_op_t& from,
                                  const std::shared_ptr<const PluginIdentity>& plugin) {
  auto out = std::make_unique<PluginOp>();
  out->source = from;
  ops::CustomOp& op = out->op;
  op.name = abi::text(from.name, "the name of a custom op");
  const std::size_t dot = op.name.find('.');
  if (!is_plain_name(op.name) || dot == 0 || dot == op.name.npos || dot + 1 == op.name.size())
    abi::refuse(
        "the custom op '{}' must be named '<family or vendor>.<op>', in at most {} letters, "
        "digits, '_' and '-'",
        op.name, kMaxName);
  const std::string what = "custom op '" + op.name + "'";
  if (op.name.starts_with("lamina."))
    abi::refuse("{}: names in 'lamina.' are reserved by the host", what);
  op.doc = abi::text(from.doc, what);
  if (op.doc.empty()) abi::refuse("{} has no doc line", what);
  op.inputs = read_operands(from.inputs, true, fmt::format("the inputs of {}", what));
  op.outputs = read_operands(from.outputs, false, fmt::format("the outputs of {}", what));
  op.attrs = read_attributes(from.attrs, fmt::format("the attributes of {}", what));
  if (from.lower == nullptr) abi::refuse("{} has no lowering; every op needs one", what);
  if (from.forward) out->forward_kernel = read_kernel(*from.forward, op.name, false, plugin);
  if (from.backward) {
    out->backward_kernel = read_kernel(*from.backward, op.name, true, plugin);
    const auto kernel = abi::copy(from.backward, "lamina_kernel_t");
    out->backward_reads_outputs = kernel.flags & LAMINA_KERNEL_READS_OUTPUTS;
  }
  op.kernel = out->forward_kernel.get();
  return out;
}

// Reads the kernels for GPUs into the ops.
void read_gpu_kernels(const lamina_custom_ops_gpu_t& from_plugin,
                      std::span<const std::unique_ptr<PluginOp>> ops,
                      const std::shared_ptr<const PluginIdentity>& plugin) {
  if (!plugin->of_this_minor) {
    for (const auto& op : ops) op->op.gpu_kernels_are_of_another_minor = true;
    return;
  }
  const auto table = abi::copy(&from_plugin, LAMINA_CUSTOM_OPS_GPU_ID);
  const std::shared_ptr<const GpuImages> images = read_gpu_images(table);
  for (const auto& from :
       abi::copies<lamina_gpu_custom_op_t>(table.ops, "lamina_gpu_custom_op_t")) {
    if (from.op >= ops.size())
      abi::refuse("GPU kernels are given for custom op {}, but the plugin has {}, numbered from 0",
                  from.op, ops.size());
    PluginOp& op = *ops[from.op];
    if (op.forward_gpu_kernel || op.backward_gpu_kernel)
      abi::refuse("GPU kernels are given twice for custom op '{}'", op.op.name);
    const auto read = [&](const lamina_gpu_kernel_t* kernel, bool is_backward) {
      const auto copy = abi::copy(kernel, "lamina_gpu_kernel_t");
      if (copy.flags & LAMINA_KERNEL_READS_OUTPUTS) op.backward_reads_outputs = true;
      return read_gpu_kernel(copy, op.op.name, is_backward, images, plugin);
    };
    if (from.forward) op.forward_gpu_kernel = read(from.forward, false);
    if (from.backward) op.backward_gpu_kernel = read(from.backward, true);
    op.op.gpu_kernel = op.forward_gpu_kernel.get();
  }
}

// Adds the gradient of the backward kernels, and the parts of the op that the host needs.
void complete(PluginOp& op) {
  if (op.backward_kernel || op.backward_gpu_kernel) {
    auto gradient = std::make_unique<ops::CustomOp>(op.op);
    gradient->name += "_grad";
    gradient->kernel = op.backward_kernel.get();
    gradient->gpu_kernel = op.backward_gpu_kernel.get();
    gradient->reads_outputs = op.backward_reads_outputs;
    ops::complete(*gradient, true, false);
    op.gradient = std::move(gradient);
  }
  op.op.gradient = op.gradient.get();
  ops::complete(op.op, false, !op.op.kernel && !op.op.gpu_kernel && !op.op.gradient);
}

}  // namespace

CustomOps read_custom_ops(const lamina_custom_ops_t& table,
                          std::shared_ptr<const PluginIdentity> plugin,
                          const lamina_custom_ops_gpu_t* gpu) {
  std::vector<std::unique_ptr<PluginOp>> read;
  for (const auto& op : abi::copies<lamina_custom_op_t>(table.ops, "lamina_custom_op_t"))
    read.push_back(read_op(op, plugin));
  if (gpu) read_gpu_kernels(*gpu, read, plugin);
  CustomOps out;
  // Never destroyed: graphs point to ops and may outlive a family.
  static auto& mutex = *new std::mutex;
  static auto& all = *new std::deque<std::unique_ptr<const PluginOp>>;
  for (std::unique_ptr<PluginOp>& op : read) {
    complete(*op);
    const std::lock_guard lock(mutex);
    out.push_back(all.emplace_back(std::move(op)).get());
    for (std::size_t i = 0; i + 1 < out.size(); ++i)
      if (out[i]->op.name == out.back()->op.name)
        abi::refuse("two custom ops are named '{}'; names must be unique", out.back()->op.name);
  }
  return out;
}

}  // namespace lamina::registry
