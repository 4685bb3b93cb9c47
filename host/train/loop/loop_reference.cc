// The log-probabilities that a run's task compares with: computed before the first step, kept in a
// folder for other runs, and in every checkpoint.
#include <filesystem>

#include "core/log.h"
#include "core/read_file.h"
#include "data/packing.h"
#include "io/durable_file.h"
#include "io/manifest.h"
#include "train/loop/loop.h"

namespace lamina::train {
namespace {

std::size_t num_values(const data::Dataset* rows) {
  return rows ? rows->num_rows() * data::max_segments(rows->tokens_per_row()) : 0;
}

}  // namespace

void Loop::prepare(const std::function<void()>& between) {
  if (!options_.task->compares_with_start() || reference_) return;
  LAMINA_ASSERT(progress_.step == 0);
  Reference out;
  std::string file;
  if (!options_.reference_folder.empty()) {
    file = fmt::format("{}/reference-{}", options_.reference_folder,
                       reference_key(inputs_.model, state_, inputs_.model_file,
                                     inputs_.data_fingerprint, options_.train.dtype));
    if (std::filesystem::exists(file) &&
        Reference::read(read_file(file, ExitCode::data), num_values(&inputs_.train),
                        num_values(inputs_.validation), out)) {
      compare_with(std::move(out));
      return;
    }
  }
  const auto compute = [&](const data::Dataset& rows) {
    return log_probabilities(inputs_.model, state_.used(), rows, options_.train.microbatch_size,
                             options_.train.dtype, backend_, between);
  };
  out.train = compute(inputs_.train);
  if (inputs_.validation) out.validation = compute(*inputs_.validation);
  if (!file.empty()) {
    try {
      std::filesystem::create_directories(options_.reference_folder);
      io::write_durably(file, out.bytes());
    } catch (const std::exception& error) {
      // The run has them; only other runs compute them again.
      log::warning("log-probabilities of the start are not kept for other runs: {}", error.what());
    }
  }
  compare_with(std::move(out));
}

void Loop::compare_with(Reference reference) {
  side_files_.assign(inputs_.side_files.begin(), inputs_.side_files.end());
  side_files_.push_back({std::string(kReferenceFile), reference.bytes()});
  saver_.set_side_files(side_files_);
  reference_ = std::move(reference);
}

void Loop::read_reference(const std::string& checkpoint) {
  if (!options_.task->compares_with_start()) return;
  const std::string file = fmt::format("{}/{}", checkpoint, kReferenceFile);
  Reference out;
  if (!std::filesystem::exists(file) ||
      !Reference::read(read_file(file, ExitCode::checkpoint), num_values(&inputs_.train),
                       num_values(inputs_.validation), out))
    throw io::Damaged({file,
                       "is missing or damaged: the log-probabilities that the run compares with",
                       {"use another checkpoint of this run (`lamina ckpt ls`)"}});
  compare_with(std::move(out));
}

const float* Loop::gather_reference(const data::Batch& batch, const std::vector<float>& of) {
  const std::size_t segments = data::max_segments(batch.tokens_per_row);
  batch_reference_.clear();
  for (std::uint64_t row : batch.rows) {
    const auto first = of.begin() + static_cast<std::ptrdiff_t>(row * segments);
    batch_reference_.insert(batch_reference_.end(), first,
                            first + static_cast<std::ptrdiff_t>(segments));
  }
  return batch_reference_.data();
}

}  // namespace lamina::train
