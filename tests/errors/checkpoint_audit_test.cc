// Each kind of tensor of each published checkpoint: removed, renamed, with another shape, with
// another type. The exit code is 4, and the message names the tensor, the file and the expected
// value.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <map>

#include "support/goldens.h"
#include "support/models.h"
#include "support/temp_dir.h"
#include "weights/match/tensor_map.h"

namespace lamina::testing {
namespace {

namespace fs = std::filesystem;

struct StoredType {
  DType dtype;
  Shape shape;
};
using CheckpointTypes = std::map<std::string, StoredType>;

CheckpointTypes types_in(const fs::path& from) {
  const io::WeightFiles files(from.string());
  CheckpointTypes out;
  for (std::string_view name : files.names()) {
    const io::TensorView view = files.tensor(name);
    out[std::string(name)] = {view.dtype, view.shape};
  }
  return out;
}

// A file with these tensors; their values are never read.
void write(const CheckpointTypes& checkpoint, const std::string& path) {
  std::string header = "{";
  std::uint64_t at = 0;
  for (const auto& [name, stored] : checkpoint) {
    std::string type(io::safetensors_type(stored.dtype));
    const std::uint64_t end = at + io::num_bytes({name, stored.dtype, stored.shape});
    header += fmt::format("{}\"{}\":{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                          header.size() > 1 ? "," : "", name, type,
                          fmt::join(stored.shape.dims(), ","), at, end);
    at = end;
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const std::uint64_t size = header.size();
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(&size), sizeof size);
  file << header;
  file.close();
  fs::resize_file(path, sizeof size + size + at);
}

// "model.layers.3.mlp" and "model.layers.4.mlp" have the same kind.
std::string kind_of(std::string name) {
  std::erase_if(name, [](unsigned char c) { return std::isdigit(c); });
  return name;
}

class Weights : public ::testing::TestWithParam<TestModel> {
 protected:
  Weights()
      : model(open_model(GetParam().path)),
        whole(types_in(GetParam().path)),
        map(weights::match_weights(model, io::WeightFiles(GetParam().path.string()))) {
    for (const char* name : {"config.json"}) fs::copy(GetParam().path / name, folder / name);
  }

  // One tensor of each kind that parameters are read from.
  std::map<std::string, std::string> tensors() const {
    std::map<std::string, std::string> out;
    for (const weights::PublishedTensor& tensor : map.tensors())
      if (whole.contains(tensor.name)) out[kind_of(tensor.name)] = tensor.name;
    return out;
  }

  bool is_optional(const std::string& name) const {
    for (const weights::PublishedTensor& tensor : map.tensors())
      if (tensor.name == name)
        for (int piece : tensor.pieces) {
          const decoder::Parameter& p =
              model.parameters()[map.pieces()[static_cast<std::size_t>(piece)].parameter];
          for (const registry::TensorRow& row : model.family().tensor_rows())
            if (row.optional && row.block == p.block && p.name.ends_with(row.param)) return true;
        }
    return false;
  }

  // The error for a checkpoint; empty if it is accepted.
  std::string error_of(const CheckpointTypes& checkpoint, const std::string& what) const {
    write(checkpoint, folder / "model.safetensors");
    try {
      weights::match_weights(model, io::WeightFiles(folder.path()));
    } catch (const UserError& error) {
      EXPECT_EQ(error.code(), ExitCode::checkpoint) << what << "\n" << error.what();
      return error.what();
    } catch (const std::exception& error) {
      ADD_FAILURE() << what << "\n" << error.what();
    }
    return {};
  }
  void expect(const CheckpointTypes& checkpoint, const std::string& what,
              const std::vector<std::string>& says) const {
    const std::string error = error_of(checkpoint, what);
    for (const std::string& part : says)
      EXPECT_NE(error.find(part), error.npos) << what << "\n" << part << "\n" << error;
  }

  decoder::Model model;
  CheckpointTypes whole;
  weights::TensorMap map;
  TempDir folder;
};

TEST_P(Weights, UnchangedFilesAreAccepted) { EXPECT_EQ(error_of(whole, "as it is"), ""); }

TEST_P(Weights, MissingTensorsAreNamed) {
  for (const auto& [kind, name] : tensors()) {
    CheckpointTypes changed = whole;
    changed.erase(name);
    if (is_optional(name)) continue;
    expect(changed, name, {folder.path(), "tensor '" + name.substr(0, name.rfind("_blocks"))});
  }
}

// The message suggests the other name, except for block tensors: their scales have a nearer name.
TEST_P(Weights, TensorsWithAnotherNameAreNamed) {
  for (const auto& [kind, name] : tensors()) {
    if (is_optional(name)) continue;
    CheckpointTypes changed = whole;
    auto node = changed.extract(name);
    node.key() += "x";
    changed.insert(std::move(node));
    const bool blocks = name.ends_with("_blocks");
    expect(changed, name, {folder.path(), blocks ? name.substr(0, name.rfind('_')) : name + "x"});
  }
}

TEST_P(Weights, TensorsOfAnotherShapeAreNamed) {
  for (const auto& [kind, name] : tensors())
    for (std::int64_t more : {-1, 1}) {
      CheckpointTypes changed = whole;
      StoredType& stored = changed.at(name);
      std::vector<std::int64_t> dims(stored.shape.dims().begin(), stored.shape.dims().end());
      if (dims.empty()) dims.push_back(1);
      dims.back() += more;
      if (dims.back() == 0) continue;
      stored.shape = Shape(std::span<const std::int64_t>(dims));
      expect(changed, name,
             {folder / "model.safetensors", "tensor '" + name, to_string(stored.shape)});
    }
}

TEST_P(Weights, TensorsOfAnotherTypeAreNamed) {
  for (const auto& [kind, name] : tensors()) {
    CheckpointTypes changed = whole;
    StoredType& stored = changed.at(name);
    stored.dtype = stored.dtype == DType::i64 ? DType::f32 : DType::i64;
    expect(
        changed, name,
        {folder / "model.safetensors", "tensor '" + name, std::string(lamina::name(stored.dtype))});
  }
}

TEST_P(Weights, SurplusTensorsAreNamed) {
  const auto first_layer = [](const auto& tensor) {
    return tensor.first.find(".0.") != std::string::npos;
  };
  const std::string beside = std::ranges::find_if(whole, first_layer)->first;
  CheckpointTypes changed = whole;
  changed[beside + ".surplus"] = {DType::f32, Shape{{2}}};
  expect(changed, beside, {folder.path(), "'" + beside + ".surplus'", model.family().name()});
}

std::vector<TestModel> published() {
  std::vector<TestModel> out;
  for (const TestModel& model : test_models())
    if (fs::is_directory(model.path)) out.push_back(model);
  return out;
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, Weights, ::testing::ValuesIn(published()),
                         [](const auto& test) { return test_name(test.param.name); });

}  // namespace
}  // namespace lamina::testing
