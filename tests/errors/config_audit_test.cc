// Every key of every family, set to wrong values: a model is either traced in every phase, or
// refused with exit code 2 and a message that names the key.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "config/model_keys.h"
#include "conformance/subjects/odd_configs.h"
#include "support/expect_error.h"
#include "support/goldens.h"
#include "support/models.h"
#include "support/paths.h"

namespace lamina::testing {
namespace {

using config::Value;

class Audit : public ::testing::TestWithParam<TestModel> {
 protected:
  Audit() : source(config::load_model(GetParam().path, {.sets = {}, .environment = {}})) {}

  config::ModelSource with(const std::string& key, Value value) const {
    return conformance::with_value(source, key, std::move(value));
  }
  config::ModelSource without(const registry::ModelKey& key) const {
    return conformance::without_value(source, key.key);
  }

  static void make(const config::ModelSource& from) {
    decoder::Model model = open_source(from);
    const registry::EmbedSpec& embed = model.options().embed;
    std::int64_t tokens = std::min<std::int64_t>(test_tokens(model), 6);
    if (embed.positions == registry::Positions::learned)
      tokens = std::min(tokens, embed.max_positions);
    model.loss_graph({2, tokens}, {.training = true, .aux = true, .mtp = true});
    if (model.is_autoregressive()) model.decode_graph({2, 1}, {tokens, tokens});
  }

  // The error; empty if there is none.
  static std::string error_of(const config::ModelSource& from, const std::string& what) {
    try {
      make(from);
    } catch (const UserError& error) {
      EXPECT_EQ(error.code(), ExitCode::usage) << what << "\n" << error.what();
      return error.what();
    } catch (const std::exception& error) {
      ADD_FAILURE() << what << ": no word of the key but " << error.what();
      return error.what();
    }
    return {};
  }

  // If refused, the message names the key or the key that it conflicts with.
  void expect_sane(const std::string& key, const Value& value) const {
    const std::string what = fmt::format("{} = {}", key, config::to_toml(value));
    const std::string error = error_of(with(key, value), what);
    if (error.empty() || error.find(key) != error.npos) return;
    const auto names = [&](const config::Key& other) {
      const std::string place = "model." + other.name + ":";  // may follow the line of a file
      return error.find("'" + other.name + "'") != error.npos || error.starts_with(place) ||
             error.find(": " + place) != error.npos;
    };
    EXPECT_TRUE(std::ranges::any_of(family().keys(), names, &registry::ModelKey::key) ||
                std::ranges::any_of(config::host_model_keys(), names))
        << what << "\n"
        << error;
  }
  void expect_refused(const config::ModelSource& from, const std::string& key,
                      const std::string& what) const {
    const std::string error = error_of(from, what);
    EXPECT_NE(error.find("'" + key + "'"), error.npos) << what << "\n" << error;
  }

  const registry::Family& family() const { return family_of(source); }
  static const registry::Family& family_of(const config::ModelSource& from) {
    static std::map<std::string, decoder::Model> keep;
    auto at = keep.find(from.where);
    if (at == keep.end()) at = keep.emplace(from.where, open_source(from)).first;
    return at->second.family();
  }

  config::ModelSource source;
};

TEST_P(Audit, OddValuesAreRefusedByNameOrWork) {
  const registry::ModelConfig usual = family().configure(source.raw, source.where);
  for (const registry::ModelKey& key : family().keys()) {
    if (key.ignored) continue;
    // The tests create a token table of that length.
    if (key.key.name == "vocab_size" && usual.values().has("engram_layers")) continue;
    const config::Entry* entry = usual.values().find(key.key.name);
    for (const Value& value : conformance::odd_values(key.key, entry ? &entry->value : nullptr))
      expect_sane(key.key.name, value);
  }
}

TEST_P(Audit, KeysOfAnotherTypeAreRefused) {
  for (const registry::ModelKey& key : family().keys())
    if (!key.ignored)
      expect_refused(with(key.key.name, conformance::value_of_another_type(key.key)),
                     "model." + key.key.name, key.key.name + " of another type");
}

// The members of an object with `value` at the dotted name, such as {"a": {"b": value}}.
std::string nested(const std::string& name, const std::string& value) {
  const auto dot = name.find('.');
  if (dot == name.npos) return fmt::format("{{\"{}\": {}}}", name, value);
  return fmt::format("{{\"{}\": {}}}", name.substr(0, dot), nested(name.substr(dot + 1), value));
}

// Tables that contain keys of the family: "rope_scaling", "rope_parameters.full_attention".
std::set<std::string> tables_of(const registry::Family& family) {
  std::set<std::string> out;
  for (const registry::ModelKey& key : family.keys()) {
    if (key.ignored) continue;
    std::vector<std::string> names = key.key.aliases;
    names.push_back(key.key.name);
    for (const std::string& name : names)
      for (auto dot = name.find('.'); dot != name.npos; dot = name.find('.', dot + 1))
        if (name.find('*') > dot) out.insert(name.substr(0, dot));
  }
  for (const registry::ModelKey& key : family.keys()) {
    out.erase(key.key.name);
    for (const std::string& alias : key.key.aliases) out.erase(alias);
  }
  return out;
}

TEST_P(Audit, TablesInPlaceOfValuesAreRefused) {
  for (const registry::ModelKey& key : family().keys()) {
    if (key.ignored) continue;
    // A publisher's key of that name has no effect; lamina's key is in the object "lamina".
    const bool is_dropped =
        std::ranges::any_of(family().keys(), [&](const registry::ModelKey& other) {
          return other.ignored && other.key.name == key.key.name;
        });
    for (const char* value : {"{}", "{\"x\": 1}", "[{}]", "[null]", "[[1], {}]"}) {
      if (is_dropped) continue;
      config::ModelSource json = source;
      json.raw.append(config::parse_json(nested(key.key.name, value), "config.json", "model."));
      EXPECT_ERROR_SAYS(family().configure(json.raw, json.where), ExitCode::usage,
                        fmt::format("config.json:1: '{}' must be {}, got ", key.key.name,
                                    config::expected_text(key.key)));
    }
    config::ModelSource toml = source;
    toml.raw.append(config::parse_toml(fmt::format("model.{} = {{}}", key.key.name), "run.toml",
                                       config::Origin::Kind::run_file));
    EXPECT_ERROR_SAYS(family().configure(toml.raw, toml.where), ExitCode::usage,
                      fmt::format("'model.{}' is a key, not a section", key.key.name));
  }
}

TEST_P(Audit, ValuesInPlaceOfTablesAreRefused) {
  for (const std::string& table : tables_of(family()))
    for (const char* value : {"\"yarn\"", "true", "[]", "-1", "0.5", "[1, 2]"}) {
      config::ModelSource json = source;
      json.raw.append(config::parse_json(nested(table, value), "config.json", "model."));
      EXPECT_ERROR_SAYS(family().configure(json.raw, json.where), ExitCode::usage,
                        fmt::format("config.json:1: '{}' must be an object, got {}", table, value));
      config::ModelSource toml = source;
      toml.raw.append(config::parse_toml(fmt::format("model.{} = {}", table, value), "run.toml",
                                         config::Origin::Kind::run_file));
      EXPECT_ERROR_SAYS(family().configure(toml.raw, toml.where), ExitCode::usage,
                        fmt::format("'model.{}' is a section", table));
    }
}

TEST_P(Audit, RequiredKeysAreMissed) {
  for (const registry::ModelKey& key : family().keys()) {
    if (!key.key.required) continue;
    config::ModelSource missing = without(key);
    EXPECT_NE(
        error_of(missing, key.key.name).find(fmt::format("missing key 'model.{}'", key.key.name)),
        std::string::npos);
  }
}

TEST_P(Audit, MisspeltKeysAreGuessed) {
  for (const registry::ModelKey& key : family().keys()) {
    if (key.ignored) continue;
    std::string wrong = key.key.name;
    wrong.insert(wrong.size() / 2, "x");
    const std::string error = error_of(with(wrong, 1), wrong);
    EXPECT_NE(error.find(fmt::format("unknown key 'model.{}'", wrong)), error.npos) << error;
    EXPECT_NE(error.find(fmt::format("did you mean 'model.{}'?", key.key.name)), error.npos)
        << error;
  }
}

// The models that are described by a file; every family has some.
std::vector<TestModel> audited() {
  std::vector<TestModel> out;
  for (const TestModel& model : test_models())
    if (!std::filesystem::is_directory(model.path) && !model.name.starts_with("features"))
      out.push_back(model);
  return out;
}

INSTANTIATE_TEST_SUITE_P(Families, Audit, ::testing::ValuesIn(audited()),
                         [](const auto& test) { return test_name(test.param.name); });

// With several residual streams there is no single state that the final norm applies to.
TEST(Prediction, FromStreamsIsNotFromTheFinalNorm) {
  const std::filesystem::path& path = test_model("deepseek_streams").path;
  EXPECT_ERROR_SAYS(open_source(config::load_model(
                        path, {.sets = {"model.num_nextn_predict_layers=1"}, .environment = {}})),
                    ExitCode::usage,
                    "'mtp_normed_hidden': got true; prediction layers of this model read residual");
}

}  // namespace
}  // namespace lamina::testing
