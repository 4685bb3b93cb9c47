// The equalities cover every family only if the test models do.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>

#include "decoder/stack/stack_plan.h"
#include "registry/discovery.h"
#include "registry/library.h"
#include "support/models.h"
#include "support/paths.h"

namespace lamina::testing {
namespace {

std::set<std::string> blocks_used(const decoder::Model& model) {
  std::set<std::uint32_t> ids = {model.options().embed.entry, model.options().head.exit,
                                 model.options().mtp.block};
  for (const decoder::StackSegment& segment : model.stack().segments)
    for (const registry::PositionSpec& p : segment.unit) ids.insert(p.block);
  std::set<std::string> out;
  for (const registry::Block& block : model.family().blocks())
    if (ids.contains(block.id)) out.insert(block.name);
  return out;
}

registry::Catalog shipped_plugins() {
  std::filesystem::path build = LAMINA_BUILD_DIR;
  return registry::Catalog::scan({.named_folders = {build / "lib/lamina/plugins"}});
}

// Families of one plugin share the build functions of blocks with the same name.
TEST(TestModels, HaveEveryFamilyAndEveryBlockOfEveryPluginThatIsBuilt) {
  std::set<std::string> families;
  std::set<std::string> predicting;                     // families with multi-token prediction
  std::map<std::string, std::set<std::string>> blocks;  // by plugin
  for (const TestModel& test : test_models()) {
    decoder::Model model = open_model(test.path);
    families.insert(model.family().name());
    if (model.mtp_depth() > 0) predicting.insert(model.family().name());
    blocks[model.family().plugin().id].merge(blocks_used(model));
  }
  const registry::Catalog built = shipped_plugins();
  ASSERT_FALSE(built.plugins().empty());
  for (const registry::PluginFile& file : built.plugins())
    for (const registry::Family& family : registry::load_plugin(file)) {
      EXPECT_TRUE(families.contains(family.name()))
          << family.name() << ": add a small model to the plugin's check/";
      const registry::ModelKey* depth = family.find_key("num_nextn_predict_layers");
      EXPECT_TRUE(!depth || depth->ignored || predicting.contains(family.name()))
          << family.name() << ": add a small model with multi-token prediction";
      for (const registry::Block& block : family.blocks())
        EXPECT_TRUE(blocks[family.plugin().id].contains(block.name))
            << family.name() << ": block " << block.name
            << "; add a small model with it to the plugin's check/";
    }
}

}  // namespace
}  // namespace lamina::testing
