#include "data/source_json.h"

#include "core/error.h"

namespace lamina::data {

void write_sources(const std::vector<TokenSource>& sources, JsonWriter& json) {
  json.begin_array();
  for (const TokenSource& source : sources) {
    json.begin_object().key("files").value(source.num_files);
    json.key("documents").value(source.counts.num_documents);
    json.key("empty_documents").value(source.counts.num_empty_documents);
    json.key("unlearned_records").value(source.counts.num_unlearned_records);
    json.key("skipped_messages").value(source.counts.num_skipped_messages);
    json.key("skipped_roles").begin_array();
    for (const std::string& role : source.skipped_roles) json.value(role);
    json.end_array();
    json.key("bytes").value(source.counts.num_bytes).key("tokens").value(source.num_tokens);
    json.key("bad_records").value(source.num_bad_records).key("bad").begin_array();
    for (const BadRecord& record : source.bad_records)
      json.begin_object()
          .key("where")
          .value(record.where)
          .key("what")
          .value(record.what)
          .end_object();
    json.end_array().end_object();
  }
  json.end_array();
}

void read_sources(const JsonValue& list, std::vector<TokenSource>& sources) {
  if (list.size() != sources.size())
    list.fail(fmt::format("must be a list of {}, got {}", sources.size(), list.describe()));
  auto source = sources.begin();
  for (const JsonValue saved : list.elements()) {
    source->num_files = saved.at("files").as_uint64();
    source->counts.num_documents = saved.at("documents").as_uint64();
    source->counts.num_empty_documents = saved.at("empty_documents").as_uint64();
    source->counts.num_unlearned_records = saved.at("unlearned_records").as_uint64();
    source->counts.num_skipped_messages = saved.at("skipped_messages").as_uint64();
    source->skipped_roles.clear();
    for (const JsonValue role : saved.at("skipped_roles").elements())
      source->skipped_roles.emplace_back(role.as_string());
    source->counts.num_bytes = saved.at("bytes").as_uint64();
    source->num_tokens = saved.at("tokens").as_uint64();
    source->num_bad_records = saved.at("bad_records").as_uint64();
    source->bad_records.clear();
    for (const JsonValue record : saved.at("bad").elements())
      source->bad_records.push_back({std::string(record.at("where").as_string()),
                                     std::string(record.at("what").as_string())});
    ++source;
  }
}

}  // namespace lamina::data
