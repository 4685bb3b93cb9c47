// Loading: the requirements on a plugin's entry and tables.
#include "registry/library.h"

#include <gtest/gtest.h>

#include "registry/zoo.h"
#include "support/expect_error.h"

namespace lamina::registry {
namespace {

Catalog one(const std::string& name) { return Catalog::scan({.files = {zoo(name)}}); }

TEST(Library, Example) {
  const Family& family = load_family(one("tiny"), "tiny_alias");
  EXPECT_EQ(family.name(), "tiny");
  EXPECT_EQ(family.plugin().id, "org.example.tiny");
  EXPECT_EQ(family.plugin().version, "1.0");
  ASSERT_EQ(family.blocks().size(), 1u);
  EXPECT_EQ(family.block(1).name, "layer");
}

// Its structs are longer than ours; the part that we do not know is zero.
TEST(Library, LoadsAPluginOfANewerContractThatUsesNothingNewer) {
  EXPECT_EQ(load_family(one("newer"), "tiny").plugin().id, "org.example.newer");
}

TEST(Library, LoadsAPluginOnce) {
  EXPECT_EQ(&load_family(one("tiny"), "tiny"), &load_family(one("tiny"), "tiny"));
}

TEST(Library, FindsTheFamilyOfAModelDescription) {
  EXPECT_EQ(load_family(one("tiny"), {.where = "m", .family = "tiny"}).name(), "tiny");
  EXPECT_EQ(load_family(one("tiny"), {.where = "m", .model_type = "tiny_type"}).name(), "tiny");
}

TEST(Library, ModelDescriptionWithoutFamilyIsTheUsersFault) {
  EXPECT_USER_ERROR(load_family(one("tiny"), {.where = "run.toml"}), ExitCode::usage,
                    "run.toml: contains no family\n  write family = \"...\", or \"model_type\" in "
                    "a config.json; found: tiny");
}

TEST(Library, CopiesTheTensorMap) {
  const Family& family = load_family(one("tiny"), "tiny");
  ASSERT_EQ(family.tensor_rows().size(), 3u);
  EXPECT_EQ(family.tensor_rows()[0].published, "layers.{L}.weight");
  EXPECT_EQ(family.tensor_rows()[0].transforms,
            (std::vector<Transform>{{Transform::Kind::add, 1.0}}));
  EXPECT_TRUE(family.tensor_rows()[2].ignore);
}

struct Fault {
  const char* plugin;
  const char* says;
};

TEST(Library, RefusesAbiViolationsWithAMessage) {
  static constexpr Fault kFaults[] = {
      {"entry_abi", "is built for plugin ABI 0.4; this host has 0."},
      {"entry_minor", "claims to be built for minor "},
      {"magic", "its entry begins with 0x7; expected 0x"},
      {"entry_size", "its entry has size 16; it must be at least 120"},
      {"entry_id", "claims to be 'org.example.liar' 1.0, but its manifest says 'org.example.tiny'"},
      {"init", "failed to start: init returned 5 (unsupported)"},
      {"init_prints", "writes to standard output when it is loaded: tiny is here"},
      {"init_environment",
       "when it is loaded, it changes the environment variable 'TINY_STARTED' (C-10 of docs/"},
      {"init_file", "when it is loaded, it leaves 1 file(s) open (C-10 of docs/"},
      {"entry_flags", "its entry has flags 0xff00; this host does not know 0xff00"},
      {"no_families", "has no interface 'lamina.families/1' and therefore no family"},
      {"init_says", "failed to start: init returned 9 (internal): blocks are missing"},
      {"family_name", "registers the families another, but its manifest lists tiny"},
      {"no_plan", "plugin 'org.example.tiny' 1.0, family 'tiny': the plan function is missing"},
      {"block_twice", "family 'tiny': blocks 'layer' and 'other' have the same id 1"},
      {"key_twice", "family 'tiny': the key 'fault' is declared twice"},
      {"key_name",
       "key 'extra key': a name consists of at most 64 letters, digits, '_', '-' and '.'"},
      {"key_doc", "key 'bare' has no doc line, which every key with an effect needs"},
      {"key_default", "the default of key 'extra' is outside its limits: 'extra' must be an"},
      {"same_kind",
       "the key 'window' is the same as 'norm_eps', but one must be an integer and the other a "
       "number"},
      {"no_layers_key",
       "the key 'num_hidden_layers', which every family must declare as an integer"},
  };
  for (const Fault& fault : kFaults) {
    SCOPED_TRACE(fault.plugin);
    EXPECT_ERROR_SAYS(load_family(one(fault.plugin), "tiny"), ExitCode::plugin, fault.says);
    EXPECT_ERROR_SAYS(load_family(one(fault.plugin), "tiny"), ExitCode::plugin,
                      std::string(fault.plugin) + ".lamina.so");
  }
}

TEST(Library, UndefinedSymbolIsNamedAtLoadTime) {
  EXPECT_ERROR_SAYS(load_family(one("undefined_symbol"), "tiny"), ExitCode::plugin,
                    "the loader rejects it:");
  EXPECT_ERROR_SAYS(load_family(one("undefined_symbol"), "tiny"), ExitCode::plugin,
                    "a_function_that_nobody_has");
}

}  // namespace
}  // namespace lamina::registry
