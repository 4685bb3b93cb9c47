#include "cli/eval/eval_logprobs.h"

#include <string>
#include <string_view>

#include "core/read_file.h"

namespace lamina::cli {

LogprobsFile::LogprobsFile(const Arguments& a) {
  if (a.has("logprobs"))
    file_ = std::make_unique<io::DurableFile>(a.text("logprobs"), 0, io::NamedBy::user);
}

bool is_logprobs_file(const std::string& path) {
  constexpr std::string_view kRow = R"({"row":)", kRecord = R"({"record":)";
  const std::string start = read_beginning(path, ExitCode::usage, kRecord.size());
  return start == kRecord || start.starts_with(kRow);
}

void LogprobsFile::write_line(const JsonWriter& object) { file_->write(object.text() + "\n"); }

void LogprobsFile::commit() {
  if (file_) file_->commit();
}

void add_logprobs(std::span<const std::int32_t> ids, std::span<const float> logprobs,
                  const text::Tokenizer& tokenizer, JsonWriter& json) {
  json.key("ids").begin_array();
  for (const std::int32_t id : ids) json.value(id);
  json.end_array().key("tokens").begin_array();
  for (const std::int32_t id : ids) json.value(tokenizer.spelling(id));
  json.end_array().key("logprobs").begin_array();
  for (const float logprob : logprobs) json.value(logprob);
  json.end_array();
}

}  // namespace lamina::cli
