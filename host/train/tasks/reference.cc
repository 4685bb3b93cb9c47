#include "train/tasks/reference.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "core/log.h"
#include "data/packing.h"
#include "io/durable_file.h"
#include "program/bound_program.h"
#include "runtime/host_access.h"
#include "train/loop/task.h"

namespace lamina::train {
namespace {

constexpr std::string_view kMagic = "lamina reference 1\n";
constexpr std::size_t kDigestBytes = 32;

}  // namespace

std::string Reference::bytes() const {
  std::string values;
  for (const std::vector<float>* part : {&train, &validation})
    values.append(reinterpret_cast<const char*>(part->data()), part->size() * sizeof(float));
  return std::string(kMagic) + io::xxh3_128_hex(std::as_bytes(std::span(values))) + values;
}

bool Reference::read(std::string_view bytes, std::size_t num_train, std::size_t num_validation,
                     Reference& out) {
  const std::size_t size = (num_train + num_validation) * sizeof(float);
  if (!bytes.starts_with(kMagic) || bytes.size() != kMagic.size() + kDigestBytes + size)
    return false;
  const std::string_view digest = bytes.substr(kMagic.size(), kDigestBytes),
                         values = bytes.substr(kMagic.size() + kDigestBytes);
  if (io::xxh3_128_hex(std::as_bytes(std::span(values))) != digest) return false;
  out.train.resize(num_train);
  out.validation.resize(num_validation);
  std::memcpy(out.train.data(), values.data(), num_train * sizeof(float));
  std::memcpy(out.validation.data(), values.data() + num_train * sizeof(float),
              num_validation * sizeof(float));
  return true;
}

std::vector<float> log_probabilities(const decoder::Model& model,
                                     std::span<const ConstTensorRef> used,
                                     const data::Dataset& rows, std::int64_t batch_rows,
                                     DType dtype, const Backend& backend,
                                     const std::function<void()>& between) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::seconds kTellEvery{10};
  const std::int64_t tokens = rows.tokens_per_row();
  const std::size_t segments = data::max_segments(tokens);
  program::BoundProgram program(log_probability_graph(model, {batch_rows, tokens, dtype}), backend);
  const auto arena = backend.allocate(program.arena_bytes());
  program.bind_parameters(used);
  std::vector<float> out(rows.num_rows() * segments);
  data::Batch batch;
  Clock::time_point told = Clock::now();
  for (std::uint64_t row = 0; row < rows.num_rows();
       row += static_cast<std::uint64_t>(batch_rows)) {
    rows.read_numbered(row, batch_rows, batch);
    const program::Microbatch inputs{batch.tokens.data(), batch.labels.data(),
                                     batch.positions.data(), batch.segment_ids.data()};
    inputs.bind(program);
    program.run(*arena);
    const std::size_t wanted =
        std::min<std::uint64_t>(static_cast<std::uint64_t>(batch_rows), rows.num_rows() - row);
    const std::vector<double> logp = program.values(decoder::Output::segment_logp);
    std::transform(logp.begin(), logp.begin() + static_cast<std::ptrdiff_t>(wanted * segments),
                   out.begin() + static_cast<std::ptrdiff_t>(row * segments),
                   [](double value) { return static_cast<float>(value); });
    if (between) between();
    if (Clock::now() - told < kTellEvery) continue;
    told = Clock::now();
    log::info("log-probabilities of the start: {} of {} rows", row + wanted, rows.num_rows());
  }
  return out;
}

std::string reference_key(const decoder::Model& model, const TrainState& state,
                          const std::string& model_file, const std::string& data_fingerprint,
                          DType dtype) {
  std::string text =
      fmt::format("reference 1\n{}\n{}\n{}\n", name(dtype), data_fingerprint, model_file);
  const auto& parameters = model.parameters().all();
  const auto digest_of = [&](std::size_t i) {
    return read_tensor<std::byte>(
        state.queue(), state.kept(static_cast<int>(i)),
        [](std::span<const std::byte> bytes) { return io::xxh3_128_hex(bytes); });
  };
  bool adapts = model.adapter() && model.adapter()->dora;  // its row lengths may differ
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (parameters[i].name.ends_with(decoder::kAdapterUp))
      adapts = adapts || read_tensor<float>(
                             state.queue(), state.masters()[i], [](std::span<const float> values) {
                               return std::ranges::any_of(values, [](float v) { return v != 0; });
                             });
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (adapts || !decoder::is_adapter(parameters[i].name))
      text += fmt::format("{} {}\n", parameters[i].name, digest_of(i));
  if (adapts && model.adapter()) text += fmt::format("scale {}\n", model.adapter()->scale);
  return io::xxh3_128_hex(std::as_bytes(std::span(text)));
}

}  // namespace lamina::train
