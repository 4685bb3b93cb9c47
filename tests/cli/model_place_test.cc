// The kind of a model by its path, where the path cannot be opened.
#include "model/place.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/few_descriptors.h"
#include "support/temp_dir.h"

namespace lamina::cli {
namespace {

using lamina::testing::FewDescriptors;
using lamina::testing::TempDir;

// A description of the user: exit 2. Files of models end with 4.
TEST(ModelPlace, ATomlFileThatCannotBeOpenedIsNoModelFile) {
  const TempDir folder;
  const std::string toml = folder.write("model.toml", "family = \"llama2\"\n"),
                    other = folder.write("model.bin", "");
  EXPECT_NO_THROW(model::check_description(toml));
  EXPECT_NO_THROW(model::check_description(folder / "absent.toml"));
  const FewDescriptors none(0);
  EXPECT_ERROR_SAYS(model::check_description(toml), ExitCode::usage,
                    "model.toml: cannot be read: too many open files");
  EXPECT_TRUE(std::holds_alternative<model::FilePlace>(model::classify(toml)));
  EXPECT_NO_THROW(model::check_description(other));
  EXPECT_ERROR_SAYS(model::classify(other), ExitCode::checkpoint,
                    "model.bin: cannot be read: too many open files");
}

}  // namespace
}  // namespace lamina::cli
