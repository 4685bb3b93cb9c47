#include "data/token_part.h"

#include <algorithm>

#include "core/printable.h"
#include "data/chat_record.h"
#include "data/json_lines.h"
#include "data/preference_record.h"

namespace lamina::data {
namespace {

// Advice about an object without the field: the form that reads its keys.
std::vector<std::string> other_form(const JsonValue& record, const Reading& reading) {
  if (record.is_object() && (record.find("messages") || record.find("conversations")))
    return {"a conversation: set data.form = \"chat\""};
  return preference_advice(record, reading);
}

std::string_view field_of(const JsonValue& record, const Reading& reading) {
  const std::string& field = reading.field;
  if (record.is_object())
    if (const JsonValue value = record.find(field)) return value.as_string();
  return record_member(record, field, "(data.field)", other_form(record, reading)).as_string();
}

class Tokenizing {
 public:
  Tokenizing(const std::string& file, const Reading& reading) : file_(file), reading_(reading) {}

  TokenPart run(const TextPart& part) && {
    if (part.is_too_long) {
      bad_record(fmt::format("{}:{}", file_, part.first_line), too_long_record());
    } else if (reading_.form == DataForm::text) {
      out_.counts = read_documents(file_, part, reading_.separator,
                                   [this](std::string_view text) { add_text(text); });
    } else {
      out_.counts += read_lines(
          part, [this](std::string_view line, std::uint64_t number) { add_record(line, number); });
    }
    return std::move(out_);
  }

 private:
  void add_text(std::string_view text) {
    std::vector<std::int32_t> ids = reading_.tokenizer.encode(text);
    const auto eos = reading_.tokenizer.eos_id();
    if (eos && (ids.empty() || ids.back() != *eos)) ids.push_back(*eos);
    add_document(std::move(ids));
  }

  void add_document(std::vector<std::int32_t> ids) {
    const auto largest = std::max_element(ids.begin(), ids.end());
    if (largest != ids.end() && *largest >= reading_.vocab_size)
      fail_produced_id(file_, *largest, reading_);
    if (out_.tokens.empty())
      out_.tokens = std::move(ids);  // a document may be a whole large file
    else
      out_.tokens.insert(out_.tokens.end(), ids.begin(), ids.end());
    out_.document_end.push_back(out_.tokens.size());
    if (reading_.between) reading_.between();
  }

  // Adds a complete record, or nothing.
  void add_record(std::string_view line, std::uint64_t number) {
    refuse_list(line, file_, number);
    const std::string place = fmt::format("{}:{}", file_, number);
    std::string text;
    std::vector<chat::MaskedTokens> documents;
    try {
      const JsonDocument record = parse_record(line, place);
      if (reading_.form == DataForm::jsonl)
        text = field_of(record.root(), reading_);
      else if (reading_.form == DataForm::preference)
        documents = read_preference_record(record.root(), place, reading_);
      else
        documents = read_conversation(record.root(), place);
    } catch (const UserError& error) {
      return bad_record(place, error.text());
    }
    if (has_masks(reading_.form)) {
      if (documents.empty()) ++out_.counts.num_unlearned_records;
      for (chat::MaskedTokens& document : documents) {
        add_document(std::move(document.ids));
        out_.in_loss.insert(out_.in_loss.end(), document.generated.begin(),
                            document.generated.end());
      }
      out_.counts.num_documents += documents.size();
    } else if (text.find_first_not_of(" \t\r\n") == text.npos) {
      ++out_.counts.num_empty_documents;
    } else {
      ++out_.counts.num_documents;
      add_text(text);
    }
  }

  std::vector<chat::MaskedTokens> read_conversation(const JsonValue& record,
                                                    const std::string& place) {
    ChatDocuments read = read_chat_record(record, place, reading_);
    add_roles(read.skipped_roles, out_.skipped_roles);
    if (!read.documents.empty()) out_.counts.num_skipped_messages += read.skipped_roles.size();
    return std::move(read.documents);
  }

  void bad_record(const std::string& place, ErrorText text) {
    text = at_record(place, std::move(text));
    if (!reading_.skip_bad_records) {
      if (const std::string& step = reading_.next_steps.bad_record; !step.empty())
        text.notes.push_back(step);
      throw UserError(ExitCode::data, std::move(text));
    }
    ++out_.num_bad_records;
    if (out_.bad_records.size() < kMaxBadRecords)
      out_.bad_records.push_back({std::move(text.where), std::move(text.what)});
  }

  const std::string& file_;
  const Reading& reading_;
  TokenPart out_;
};

}  // namespace

void add_roles(const std::vector<std::string>& more, std::vector<std::string>& roles) {
  for (const std::string& role : more)
    if (roles.size() < kMaxRoles && std::ranges::find(roles, role) == roles.end())
      roles.push_back(role);
}

TokenPart tokenize_part(const std::string& file, const TextPart& part, const Reading& reading) {
  return Tokenizing(file, reading).run(part);
}

TokenPart read_bin_part(const std::string& file, const BinPart& part, const Reading& reading) {
  TokenPart out;
  out.document_end = part.document_end;
  // Removes documents without tokens, whose end equals the previous one.
  out.document_end.erase(std::unique(out.document_end.begin(), out.document_end.end()),
                         out.document_end.end());
  if (!out.document_end.empty() && out.document_end.front() == 0)
    out.document_end.erase(out.document_end.begin());
  out.counts.num_documents = out.document_end.size();
  out.counts.num_empty_documents = part.document_end.size() - out.document_end.size();
  out.counts.num_bytes = part.bytes.size();
  out.tokens.resize(part.bytes.size() / static_cast<std::size_t>(part.id_bytes));
  for (std::size_t i = 0; i < out.tokens.size(); ++i) {
    const std::int64_t id = id_in(part, i);
    if (id < 0 || id >= reading.vocab_size)
      fail_id(file, part.first_token + i, id, reading.vocab_size);
    out.tokens[i] = static_cast<std::int32_t>(id);
  }
  if (reading.between) reading.between();
  return out;
}

void fail_id(const std::string& file, std::uint64_t index, std::int64_t id,
             std::int64_t vocab_size) {
  throw UserError(
      ExitCode::data,
      {file,
       fmt::format("token {} is the id {}, but the vocabulary has ids 0 to {}", index, id,
                   vocab_size - 1),
       {"data.form = \"tokens\" reads files of llm.c, nanoGPT and Megatron; data.tokenizer must be "
        "the tokenizer that produced them"}});
}

void fail_produced_id(const std::string& where, std::int32_t id, const Reading& reading) {
  throw UserError(
      ExitCode::data,
      {where,
       fmt::format("the tokenizer produces the id {} (\"{}\"), but the model has ids 0 to {}", id,
                   printable(reading.tokenizer.token_bytes(id), 40), reading.vocab_size - 1),
       {fmt::format("use the model's own tokenizer, or set model.vocab_size to at least {}",
                    reading.tokenizer.vocab_size())}});
}

}  // namespace lamina::data
