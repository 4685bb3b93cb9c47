#include "data/sources.h"

#include <fmt/format.h>

#include <chrono>
#include <initializer_list>
#include <new>
#include <utility>

#include "chat/form.h"
#include "chat/reasoning.h"
#include "core/error.h"
#include "core/log.h"
#include "core/read_file.h"
#include "data/token_store.h"
#include "jinja/template.h"

namespace lamina::data {
namespace {

bool has_template(const config::DataSection& section) {
  return section.form == "chat" || section.form == "preference";
}

// Smaller files are tokenized faster than a run starts.
constexpr std::uint64_t kMinStoreBytes = std::uint64_t{1} << 20;

// Returns the value for a word that config has already validated.
template <typename T>
T chosen(std::string_view word, std::initializer_list<std::pair<std::string_view, T>> choices) {
  for (const auto& [name, value] : choices)
    if (name == word) return value;
  throw InternalError({"data", fmt::format("'{}' is not one of its choices", word), {}});
}

std::function<void(const StoreProgress&)> log_now_and_then() {
  using Clock = std::chrono::steady_clock;
  return [last = Clock::now()](const StoreProgress& progress) mutable {
    const auto now = Clock::now();
    if (now - last < std::chrono::seconds(10)) return;
    last = now;
    log::info("tokenizing: {:.0f}%", 100.0 * static_cast<double>(progress.bytes_done) /
                                         static_cast<double>(progress.num_bytes));
  };
}

}  // namespace

std::unique_ptr<const chat::Form> load_chat_form(const config::DataSection& section,
                                                 const NextSteps& steps) {
  if (!has_template(section)) return nullptr;
  const bool has_directory = section.tokenizer != "byte";
  if (!section.chat_template && !has_directory) return nullptr;
  try {
    auto form = chat::Form::find(has_directory ? section.tokenizer : "", section.chat_template);
    return form ? std::make_unique<const chat::Form>(*std::move(form)) : nullptr;
  } catch (const UserError& error) {  // of another class
    ErrorText text = error.text();
    if (!section.chat_template) text.notes = {steps.chat_template};
    throw UserError(ExitCode::data, std::move(text));
  }
}

bool has_chat_template(const std::string& directory) {
  try {
    return chat::Form::find(directory).has_value();
  } catch (const UserError&) {  // it is not valid
    return true;
  }
}

std::optional<std::string> chat_template_text(const config::DataSection& section) {
  if (!has_template(section) || !section.chat_template) return {};
  return read_file(*section.chat_template, ExitCode::data, 4 * jinja::kMaxSource);
}

namespace {

std::unique_ptr<const chat::ReasoningMarks> dropped_marks(const config::DataSection& section,
                                                          const text::Tokenizer& tokenizer,
                                                          const chat::Form* form) {
  if (section.thinking != "drop") return nullptr;
  const std::vector<std::string> own_text = form ? form->own_text() : std::vector<std::string>();
  return std::make_unique<const chat::ReasoningMarks>(
      chat::ReasoningMarks::published(tokenizer, own_text).spelt_out());
}

}  // namespace

Sources::Sources(const config::DataSection& section, const text::Tokenizer& tokenizer,
                 std::int64_t vocab_size, const LoadHooks& hooks)
    : chat_(load_chat_form(section, hooks.next_steps)),
      marks_(dropped_marks(section, tokenizer, chat_.get())),
      reading_{.form = chosen<DataForm>(section.form, {{"text", DataForm::text},
                                                       {"jsonl", DataForm::jsonl},
                                                       {"chat", DataForm::chat},
                                                       {"tokens", DataForm::tokens},
                                                       {"preference", DataForm::preference}}),
               .separator = chosen<Separator>(section.document_separator,
                                              {{"file", Separator::file},
                                               {"blank_line", Separator::blank_line},
                                               {"line", Separator::line}}),
               .field = section.field,
               .loss_on = chosen<LossOn>(section.loss_on, {{"assistant", LossOn::assistant},
                                                           {"last", LossOn::last},
                                                           {"all", LossOn::all}}),
               .dropped_thinking = marks_.get(),
               .skip_bad_records = section.bad_records == "skip",
               .tokenizer = tokenizer,
               .vocab_size = vocab_size,
               .chat = chat_.get(),
               .tokenizer_path = section.tokenizer,
               .between = hooks.between,
               .next_steps = hooks.next_steps},
      store_{.folder = section.store == "none" ? "" : section.store,
             .workers = hooks.workers,
             .progress = hooks.progress ? hooks.progress : log_now_and_then(),
             .min_bytes = kMinStoreBytes} {}

Sources::~Sources() = default;

StoredTokens Sources::read(const std::vector<std::string>& patterns) const {
  try {
    if (has_stores()) return open_or_make_store(patterns, reading_, store_);
    const auto store =
        std::make_shared<const TokenStore>(tokenize_files(patterns, reading_, store_.workers));
    return {.view = view_of(store), .sources = store->sources, .path = ""};
  } catch (const std::bad_alloc&) {
    std::vector<std::string> notes = {
        "a document is read as a whole: split large files (data.document_separator)"};
    if (!has_stores())
      notes.insert(notes.begin(),
                   "with data.store = \"none\" all tokens are in memory, 4 bytes each: remove it");
    throw DeviceError(ExitCode::memory,
                      {patterns.front(), "out of memory while it was read", std::move(notes)});
  }
}

std::vector<std::vector<std::string>> kept_together(const config::DataSection& section) {
  std::vector<std::vector<std::string>> out;
  if (section.weights.empty())
    out.push_back(section.train);
  else
    for (const std::string& entry : section.train) out.push_back({entry});
  if (!section.validation.empty()) out.push_back(section.validation);
  return out;
}

}  // namespace lamina::data
