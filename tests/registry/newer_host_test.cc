// A host of the next minor whose structs have grown, with plugins built for today's.
#include <gtest/gtest.h>

#include "lamina/abi.h"
#include "registry/library.h"
#include "registry/model.h"

static_assert(LAMINA_ABI_MINOR > LAMINA_ABI_CANDIDATE && sizeof(lamina_emit_t) > 72,
              "this must see the grown abi.h");

namespace lamina::registry {
namespace {

TEST(Families, OfTodayAreReadByANewerHost) {
  for (const auto& [plugin, family] : {std::pair{"llama", "llama2"}, {"deepseek", "deepseek4"}}) {
    const Catalog catalog =
        Catalog::scan({.files = {std::string(PLUGINS) + "/" + plugin + ".lamina.so"}});
    const Family& read = load_family(catalog, family);
    EXPECT_EQ(read.name(), family);
    EXPECT_GT(read.blocks().size(), 0u);
    EXPECT_GT(read.tensor_rows().size(), 0u);
  }
}

TEST(Families, OfTodayHaveAnotherMinor) { EXPECT_FALSE(tiny().plugin().of_this_minor); }

}  // namespace
}  // namespace lamina::registry
