#include "text/hf/post_processor.h"

#include "core/error.h"
#include "text/hf/json_parts.h"
#include "text/vocabulary.h"

namespace lamina::text {
namespace {

// The part of a TemplateProcessing for a single text.
void add_template(const JsonValue& json, std::int64_t num_ids, PostTemplate& out) {
  std::vector<TokenId> before, after;
  bool seen_text = false;
  for (JsonValue part : json.at("single").elements()) {
    if (const JsonValue special = part.find("SpecialToken")) {
      const JsonValue token = json.at("special_tokens").at(special.at("id").as_string());
      for (JsonValue id : token.at("ids").elements())
        (seen_text ? after : before).push_back(read_id(id, num_ids));
    } else {
      const JsonValue text = part.at("Sequence").at("id");
      if (text.as_string() != "A" || seen_text)
        text.fail(fmt::format("is {}; a template for one text has the sequence \"A\" once",
                              text.describe()));
      seen_text = true;
    }
  }
  if (!seen_text) json.at("single").fail("has no sequence \"A\"");
  out.before.insert(out.before.begin(), before.begin(), before.end());
  out.after.insert(out.after.end(), after.begin(), after.end());
}

// ["</s>", 2]
TokenId read_token_and_id(const JsonValue& json, std::int64_t num_ids) {
  if (!json.is_array() || json.size() != 2 || !json.element(0).is_string())
    json.fail(fmt::format("must be a token and its id, eg [\"</s>\", 2], got {}", json.describe()));
  return read_id(json.element(1), num_ids);
}

void add_cls_and_sep(const JsonValue& json, std::int64_t num_ids, PostTemplate& out) {
  out.before.insert(out.before.begin(), read_token_and_id(json.at("cls"), num_ids));
  out.after.push_back(read_token_and_id(json.at("sep"), num_ids));
}

void add_nothing(const JsonValue&, std::int64_t, PostTemplate&) {}

struct Kind {
  std::string_view name;
  void (*add)(const JsonValue& json, std::int64_t num_ids, PostTemplate& out);
};
constexpr Kind kKinds[] = {
    {"TemplateProcessing", add_template},
    {"RobertaProcessing", add_cls_and_sep},
    {"BertProcessing", add_cls_and_sep},
    {"ByteLevel", add_nothing},  // affects offsets only
};

void add(const JsonValue& json, std::int64_t num_ids, PostTemplate& out, bool& after_template) {
  if (json.at("type").as_string() == "Sequence") {
    for (JsonValue step : json.at("processors").elements()) add(step, num_ids, out, after_template);
    return;
  }
  const Kind& kind = find_kind(kKinds, json, "post_processor");
  // The reference adds ids around each part of the template, or fails.
  if (after_template && kind.add != add_nothing)
    json.at("type").fail(fmt::format("is {}, which is not supported after a TemplateProcessing",
                                     json.at("type").describe()));
  kind.add(json, num_ids, out);
  after_template = after_template || kind.add == add_template;
}

}  // namespace

PostTemplate read_post_processor(const JsonValue& json, std::int64_t num_ids) {
  PostTemplate out;
  bool after_template = false;
  if (json && !json.is_null()) add(json, num_ids, out, after_template);
  return out;
}

}  // namespace lamina::text
