// lamina tokenize: converts text to token ids and back, without a model.
#include <fmt/format.h>

#include "cli/data/convert_lines.h"
#include "cli/data/token_listing.h"
#include "cli/generate/prompt.h"
#include "cli/shell/command.h"
#include "cli/shell/terminal.h"
#include "core/error.h"
#include "core/json_writer.h"
#include "core/read_file.h"
#include "core/utf8.h"
#include "model/place.h"
#include "text/tokenizer.h"

namespace lamina::cli {
namespace {

text::EncodeOptions encode_options(const Arguments& a, const text::Tokenizer& tokenizer) {
  return {.add_special = !a.has("special") || a.flag("special"),
          .parse_special =
              a.has("parse-special") ? a.flag("parse-special") : tokenizer.reads_special_tokens()};
}

// Converts one object of --jsonl to one line of output.
std::string line_of(const JsonValue& object, const text::Tokenizer& tokenizer, const Arguments& a) {
  JsonWriter json;
  json.begin_object();
  if (a.flag("decode"))
    json.key("text").value(tokenizer.decode(read_ids(object.at("ids"), tokenizer.vocab_size()),
                                            a.flag("skip-special")));
  else
    write_ids(json, tokenizer.encode(object.at("text").as_string(), encode_options(a, tokenizer)));
  return json.end_object().text();
}

void check_options(const Arguments& a) {
  const auto refuse = [](std::string what) {
    throw UserError(ExitCode::usage, {"tokenize", std::move(what), {}});
  };
  const int inputs = a.has("prompt") + a.has("file") + a.has("ids") + a.has("jsonl");
  if (inputs > 1) refuse("takes one of -p, -f, --ids and --jsonl; got several");
  if (a.has("ids") && !a.flag("decode")) refuse("--ids needs --decode, which turns ids into text");
  if (a.flag("decode") && (a.has("prompt") || a.has("file")))
    refuse("--decode turns ids into text; give ids with --ids 1,2,3 or --jsonl");
  if (a.flag("decode") && !a.has("ids") && !a.has("jsonl"))
    refuse("--decode has no ids; give them with --ids 1,2,3 or --jsonl");
  if (a.flag("skip-special") && !a.flag("decode"))
    refuse("--skip-special needs --decode; for text use --no-special");
  for (const char* option : {"special", "parse-special", "count"})
    if (a.flag("decode") && a.has(option))
      refuse(fmt::format("--{} has no effect on --decode, which turns ids into text; remove it{}",
                         a.flag(option) ? option : fmt::format("no-{}", option),
                         option == std::string_view("special") ? ", or use --skip-special" : ""));
  if (a.has("jsonl") && (a.flag("json") || a.flag("count")))
    refuse("--jsonl cannot be combined with --json or --count; remove them");
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

int run_tokenize(const Arguments& a, const Device&) {
  check_options(a);
  const auto tokenizer = text::load_tokenizer(model::tokenizer_files(a.text("model")));
  if (a.has("jsonl")) {
    convert_lines(a.text("jsonl"),
                  [&](const JsonValue& object) { return line_of(object, *tokenizer, a); });
  } else if (a.flag("decode")) {
    const std::vector<text::TokenId> ids = parse_ids(a.text("ids"));
    check_given_ids(ids, tokenizer->vocab_size());
    const std::string text = tokenizer->decode(ids, a.flag("skip-special"));
    if (a.flag("json"))
      print(JsonWriter().begin_object().key("text").value(text).end_object().text() + "\n");
    else
      print_model_text(text + (describe_terminal(1).is_terminal ? "\n" : ""), a.flag("raw"));
  } else if (const std::string text = read_text(a); a.flag("count")) {
    const std::size_t count = tokenizer->encode(text, encode_options(a, *tokenizer)).size();
    print(a.flag("json")
              ? JsonWriter().begin_object().key("count").value(count).end_object().text() + "\n"
              : fmt::format("{}\n", count));
  } else {
    text::Encoding e = tokenizer->encode_with_spans(text, encode_options(a, *tokenizer));
    e.spans = in_code_points(replace_invalid_utf8(text), e.spans);
    print(a.flag("json") ? listing_json(*tokenizer, e) : listing_text(*tokenizer, e));
  }
  return 0;
}

}  // namespace

Command tokenize_command() {
  Option model = text_option("model", 'm', "DIR",
                             "A directory with a tokenizer: a model, a checkpoint or a run.");
  model.key.required = true;
  return {
      .name = "tokenize",
      .summary = "turns text into token ids, and ids into text",
      .details =
          "Prints a line per token: its id, its span in the text in code points, and its "
          "spelling in the vocabulary. With --jsonl one object per line, {\"text\": ...} to "
          "{\"ids\": "
          "[...]}, or the reverse with --decode.",
      .options =
          {model, text_option("prompt", 'p', "TEXT", "The text."),
           text_option("file", 'f', "FILE", "Read the text from a file; - is stdin."),
           text_option("jsonl", 0, "FILE", "Read objects, one per line; - is stdin."),
           flag_option("decode", "Turn ids into text."),
           text_option("ids", 0, "1,2,3", "The ids of --decode."),
           flag_option("special",
                       "Add the tokens that begin and end a text; on unless --no-special.", true),
           flag_option(
               "parse-special",
               "Read special tokens in the text as special, or, with --no-parse-special, never; by "
               "default as the tokenizer's own implementation does.",
               true),
           flag_option("skip-special", "Omit special tokens from the text of --decode."),
           flag_option("count", "Print the number of tokens only."), raw_option(), json_option()},
      .examples = {"lamina tokenize -m model -p \"Hello world\"",
                   "lamina tokenize -m model --count -f book.txt",
                   "lamina tokenize -m model --decode --ids 1,15043,3186"},
      .run = run_tokenize};
}

}  // namespace lamina::cli
