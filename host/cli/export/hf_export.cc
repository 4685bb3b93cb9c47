#include "cli/export/hf_export.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <unordered_map>

#include "cli/export/hf_config.h"
#include "core/error.h"
#include "core/float16.h"
#include "core/json_writer.h"
#include "decoder/weights.h"
#include "io/directory_commit.h"
#include "io/hf_directory.h"
#include "text/tokenizer.h"

namespace lamina::cli {
namespace {

namespace fs = std::filesystem;

// One tensor on its way: where it is read, and what it becomes.
struct Transfer {
  decoder::PublishedTensor from, to;
  io::TensorSpec spec;
};

bool same_form(const decoder::PublishedTensor& a, const decoder::PublishedTensor& b) {
  return a.row && b.row && a.row->transforms == b.row->transforms;
}

// A tensor that was published keeps its name: families have optional prefixes.
std::vector<Transfer> plan_transfers(const decoder::Model& model, const io::WeightFiles& files,
                                     std::optional<DType> dtype) {
  std::vector<decoder::PublishedTensor> sources = decoder::match_weights(model, files);
  std::vector<Transfer> out;
  for (decoder::PublishedTensor& to : decoder::published_tensors(model)) {
    const auto source =
        std::ranges::find(sources, to.parameter, &decoder::PublishedTensor::parameter);
    if (source == sources.end() || source->name.empty()) continue;  // optional, not there
    const bool keeps_form = same_form(*source, to);
    const DType stored = files.tensor(source->name).dtype;
    const bool computed = stored == DType::f32 || stored == DType::bf16;
    const DType target = dtype.value_or(keeps_form || computed ? stored : DType::f32);
    out.push_back({*source, to, {keeps_form ? source->name : to.name, target, to.shape}});
  }
  return out;
}

std::vector<std::byte> convert(const std::vector<float>& values, DType dtype) {
  std::vector<std::byte> out(values.size() * static_cast<std::size_t>(size_bytes(dtype)));
  LAMINA_ASSERT(dtype == DType::f32 || dtype == DType::bf16);
  if (dtype == DType::f32) {
    std::ranges::copy(std::as_bytes(std::span(values)), out.begin());
  } else {
    auto* to = reinterpret_cast<bfloat16*>(out.data());
    for (std::size_t i = 0; i < values.size(); ++i) to[i] = to_bfloat16(values[i]);
  }
  return out;
}

// The tensor's bytes; `memory` holds them where the file's do not serve as they are.
std::span<const std::byte> bytes_of(const decoder::Model& model, const io::WeightFiles& files,
                                    const Transfer& t, std::vector<std::byte>& memory) {
  const io::TensorView view = files.tensor(t.from.name);
  if (view.dtype == t.spec.dtype && same_form(t.from, t.to)) return view.bytes;
  std::vector<float> ours(
      static_cast<std::size_t>(model.parameters()[t.from.parameter].num_elements()));
  decoder::from_published(t.from, view, ours);
  memory = convert(decoder::to_published(t.to, ours), t.spec.dtype);
  return memory;
}

// The type that most bytes are stored in.
DType main_dtype(const std::vector<Transfer>& transfers) {
  std::map<DType, std::uint64_t> bytes;
  for (const Transfer& t : transfers) bytes[t.spec.dtype] += io::num_bytes(t.spec);
  auto most = std::ranges::max_element(bytes, {}, [](const auto& entry) { return entry.second; });
  return most == bytes.end() ? DType::f32 : most->first;
}

// The config.json that the weights came with, telling their type as it is now.
std::string edited_config(const std::string& directory, DType dtype) {
  const io::HfDirectory source(directory);
  JsonWriter json(2);
  json.begin_object();
  for (const auto& [key, value] : source.config().members()) {
    json.key(key);
    if (key == "torch_dtype" || key == "dtype")
      json.value(long_name(dtype));
    else
      json.value(value);
  }
  return json.end_object().text() + "\n";
}

std::string fresh_config(const decoder::Model& model, const std::string& directory, DType dtype) {
  HfConfigExtras extras{std::string(long_name(dtype)), {}, {}};
  if (text::has_tokenizer(directory)) {
    auto tokenizer = text::load_tokenizer(directory);
    extras.bos_token = tokenizer->bos_id();
    extras.eos_token = tokenizer->eos_id();
  }
  return hf_config(model.family().names(), model.config(), extras);
}

}  // namespace

Exported export_to_hf(const decoder::Model& model, const std::string& from, const std::string& to,
                      std::optional<DType> dtype) {
  if (fs::exists(to))
    throw UserError(ExitCode::usage, {to,
                                      "exists already; --to names a directory to be made",
                                      {"choose another name, or remove it first"}});
  const io::WeightFiles files(from);
  const std::vector<Transfer> transfers = plan_transfers(model, files, dtype);
  const bool published = fs::exists(fs::path(from) / "config.json");
  const DType most = main_dtype(transfers);
  const std::string config =
      published ? edited_config(from, most) : fresh_config(model, from, most);

  Exported out;
  std::vector<io::TensorSpec> specs;
  std::unordered_map<std::string_view, const Transfer*> by_name;
  for (const Transfer& t : transfers) {
    specs.push_back(t.spec);
    by_name[t.spec.name] = &t;
    out.num_bytes += io::num_bytes(t.spec);
  }
  out.num_tensors = static_cast<std::int64_t>(specs.size());
  std::vector<std::byte> memory;
  io::DirectoryCommit commit(to);
  io::write_weight_files(commit.path(), specs, [&](const io::TensorSpec& spec) {
    return bytes_of(model, files, *by_name.at(spec.name), memory);
  });
  io::copy_side_files(from, commit.path());
  io::write_durably(commit.path() + "/config.json", config);
  commit.commit();
  return out;
}

}  // namespace lamina::cli
