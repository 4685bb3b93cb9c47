// lamina tokenize: text to token ids and back, without a model.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fstream>
#include <iostream>

#include "cli/commands.h"
#include "cli/prompt.h"
#include "cli/terminal.h"
#include "core/error.h"
#include "core/json.h"
#include "core/json_writer.h"
#include "core/read_file.h"
#include "core/utf8.h"
#include "text/tokenizer.h"
#include "train/run_directory.h"

namespace lamina::cli {
namespace {

using text::Span;
using text::TokenId;

// Output is collected up to this before it is written.
constexpr std::size_t kBatchBytes = std::size_t{1} << 20;
constexpr std::size_t kMaxTextBytes = std::size_t{1} << 30;

// Of the directory itself, or of the newest checkpoint in it.
std::unique_ptr<text::Tokenizer> load(const std::string& path) {
  if (!text::has_tokenizer(path))
    if (const std::string newest = train::newest_checkpoint(path); !newest.empty())
      return text::load_tokenizer(newest);
  return text::load_tokenizer(path);
}

text::EncodeOptions encode_options(const Arguments& a, const text::Tokenizer& tokenizer) {
  return {.add_special = !a.has("special") || a.flag("special"),
          .parse_special =
              a.has("parse-special") ? a.flag("parse-special") : tokenizer.reads_special_tokens()};
}

// Spans in code points, which is what other tools count.
std::vector<Span> in_code_points(std::string_view text, const std::vector<Span>& spans) {
  std::vector<std::size_t> before{0};  // code points before each byte
  before.reserve(text.size() + 1);
  for (char c : text) before.push_back(before.back() + (utf8_continues(c) ? 0 : 1));
  std::vector<Span> out;
  for (const Span& span : spans)
    out.push_back(
        {before[std::min(span.begin, text.size())], before[std::min(span.end, text.size())]});
  return out;
}

void write_ids(JsonWriter& json, const std::vector<TokenId>& ids) {
  json.key("ids").begin_array();
  for (TokenId id : ids) json.value(id);
  json.end_array();
}

std::string as_json(const text::Tokenizer& tokenizer, const text::Encoding& e) {
  JsonWriter json;
  json.begin_object().key("count").value(e.ids.size());
  write_ids(json, e.ids);
  json.key("pieces").begin_array();
  for (TokenId id : e.ids) json.value(tokenizer.spelling(id));
  json.end_array().key("offsets").begin_array();
  for (const Span& span : e.spans) json.begin_array().value(span.begin).value(span.end).end_array();
  return json.end_array().end_object().text() + "\n";
}

std::string as_table(const text::Tokenizer& tokenizer, const text::Encoding& e) {
  std::string out;
  for (std::size_t i = 0; i < e.ids.size(); ++i)
    out += fmt::format("{:>8}  {:>6}..{:<6}  {}\n", e.ids[i], e.spans[i].begin, e.spans[i].end,
                       printable(tokenizer.spelling(e.ids[i])));
  return out + fmt::format("{} token{}\n", e.ids.size(), e.ids.size() == 1 ? "" : "s");
}

std::vector<TokenId> ids_of(const JsonValue& list) {
  std::vector<TokenId> ids;
  for (JsonValue id : list.elements()) {
    const std::int64_t value = id.as_int64();
    if (value < 0 || value > std::numeric_limits<TokenId>::max())
      id.fail(fmt::format("is {}, which is no token id; they count from 0", value));
    ids.push_back(static_cast<TokenId>(value));
  }
  return ids;
}

// One object of --jsonl to one of the output.
std::string line_of(const JsonValue& object, const text::Tokenizer& tokenizer, const Arguments& a) {
  JsonWriter json;
  json.begin_object();
  if (a.flag("decode"))
    json.key("text").value(tokenizer.decode(ids_of(object.at("ids")), a.flag("skip-special")));
  else
    write_ids(json, tokenizer.encode(object.at("text").as_string(), encode_options(a, tokenizer)));
  return json.end_object().text() + "\n";
}

void run_lines(std::istream& in, const std::string& file, const text::Tokenizer& tokenizer,
               const Arguments& a) {
  std::string out;
  std::size_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.empty()) continue;
    const JsonDocument document =
        JsonDocument::parse(std::move(line), fmt::format("{}: line {}", file, number),
                            {.code = ExitCode::data, .max_bytes = kMaxTextBytes});
    out += line_of(document.root(), tokenizer, a);
    if (out.size() > kBatchBytes) print_bytes(std::exchange(out, {}));
  }
  if (in.bad()) user_error(ExitCode::data, file, "cannot be read");
  print_bytes(out);
}

void run_jsonl(const text::Tokenizer& tokenizer, const Arguments& a) {
  const std::string& file = a.text("jsonl");
  if (file == "-") return run_lines(std::cin, "stdin", tokenizer, a);
  std::ifstream in(file, std::ios::binary);
  if (!in) static_cast<void>(read_file(file, ExitCode::data));  // says why
  run_lines(in, file, tokenizer, a);
}

void check_options(const Arguments& a) {
  const auto refuse = [](std::string what) {
    throw UserError(ExitCode::usage, {"tokenize", std::move(what), {}});
  };
  const int inputs = a.has("prompt") + a.has("file") + a.has("ids") + a.has("jsonl");
  if (inputs > 1) refuse("takes one of -p, -f, --ids and --jsonl; several were given");
  if (a.has("ids") && !a.flag("decode")) refuse("--ids gives ids to turn into text: add --decode");
  if (a.flag("decode") && (a.has("prompt") || a.has("file")))
    refuse("--decode turns ids into text: give them with --ids 1,2,3 or --jsonl");
  if (a.flag("decode") && !a.has("ids") && !a.has("jsonl"))
    refuse("--decode has no ids; give them with --ids 1,2,3 or --jsonl");
  if (a.flag("skip-special") && !a.flag("decode"))
    refuse("--skip-special concerns --decode; for text there is --no-special");
  if (a.has("jsonl") && (a.flag("json") || a.flag("count")))
    refuse("--jsonl has a form of its own; leave out --json and --count");
}

std::string read_text(const Arguments& a) {
  if (a.has("prompt")) return a.text("prompt");
  if (a.has("file") && a.text("file") != "-")
    return read_file(a.text("file"), ExitCode::data, kMaxTextBytes);
  if (!a.has("file") && describe_terminal(0).is_terminal)
    throw UserError(ExitCode::usage,
                    {"tokenize", "no text was given; use -p TEXT, -f FILE or --jsonl FILE", {}});
  return read_stdin(ExitCode::data, kMaxTextBytes);
}

int run(const Arguments& a, const Machine&) {
  check_options(a);
  const auto tokenizer = load(a.text("model"));
  if (a.has("jsonl")) {
    run_jsonl(*tokenizer, a);
  } else if (a.flag("decode")) {
    const std::string text = tokenizer->decode(parse_ids(a.text("ids")), a.flag("skip-special"));
    if (a.flag("json"))
      print(JsonWriter().begin_object().key("text").value(text).end_object().text() + "\n");
    else
      print_bytes(text + (describe_terminal(1).is_terminal ? "\n" : ""));
  } else if (const std::string text = read_text(a); a.flag("count")) {
    print(fmt::format("{}\n", tokenizer->encode(text, encode_options(a, *tokenizer)).size()));
  } else {
    text::Encoding e = tokenizer->encode_with_spans(text, encode_options(a, *tokenizer));
    e.spans = in_code_points(text, e.spans);
    print(a.flag("json") ? as_json(*tokenizer, e) : as_table(*tokenizer, e));
  }
  return 0;
}

Option flag(std::string name, std::string doc, bool negatable = false) {
  return {.key = {.name = std::move(name), .type = Type::boolean, .doc = std::move(doc)},
          .negatable = negatable};
}

}  // namespace

Command tokenize_command() {
  Option model = text_option("model", 'm', "DIR",
                             "A directory with a tokenizer: of a model, a checkpoint or a run.");
  model.key.required = true;
  return {
      .name = "tokenize",
      .summary = "turns text into token ids, and ids into text",
      .details =
          "A line for each token: its id, its place in the text in code points, and how the "
          "vocabulary spells it. With --jsonl one object per line, {\"text\": ...} to {\"ids\": "
          "[...]}, or the other way with --decode.",
      .options =
          {model, text_option("prompt", 'p', "TEXT", "The text."),
           text_option("file", 'f', "FILE", "Read the text from a file; - is stdin."),
           text_option("jsonl", 0, "FILE", "Read objects, one a line; - is stdin."),
           flag("decode", "Turn ids into text."),
           text_option("ids", 0, "1,2,3", "The ids of --decode."),
           flag("special", "Add the tokens that begin and end a text; on unless --no-special.",
                true),
           flag("parse-special",
                "Read special tokens in the text as such, or, with --no-parse-special, never; by "
                "default what the tokenizer's own implementation does.",
                true),
           flag("skip-special", "Leave special tokens out of the text of --decode."),
           flag("count", "Print the number of tokens only."), json_option()},
      .examples = {"lamina tokenize -m model -p \"Hello world\"",
                   "lamina tokenize -m model --count -f book.txt",
                   "lamina tokenize -m model --decode --ids 1,15043,3186"},
      .run = run};
}

}  // namespace lamina::cli
