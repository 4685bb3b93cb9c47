// Small models whose matrices are in blocks, in the form of a checkpoint, and the same models with
// the values of the blocks.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "formats/encode.h"
#include "formats/lookup.h"
#include "io/safetensors_writer.h"
#include "io/weight_files.h"
#include "model/export.h"
#include "support/published_model.h"
#include "support/run_of_file.h"
#include "support/temp_dir.h"

namespace lamina::testing {

// Integers of 8 bits, which products in bfloat16 multiply as integers.
inline const formats::BlockFormat& int8_blocks() { return *formats::block_format_named("INT8_32"); }
// FP8, which is widened in all products.
inline const formats::BlockFormat& fp8_blocks() { return *formats::block_format_named("FP8_32"); }

// Returns rows of `width` values as blocks, and replaces the values by the rounded ones.
inline std::vector<std::byte> round_to_blocks(const formats::BlockFormat& format,
                                              std::span<float> values, std::int64_t width) {
  std::vector<std::byte> out(
      static_cast<std::size_t>(format.bytes_of(static_cast<std::int64_t>(values.size()))));
  std::byte* at = out.data();
  for (std::size_t row = 0; row < values.size(); row += static_cast<std::size_t>(width)) {
    EXPECT_TRUE(
        formats::encode_row(format, values.subspan(row, static_cast<std::size_t>(width)), at));
    at += format.bytes_of(width);
  }
  const std::byte* block = out.data();
  for (std::size_t i = 0; i < values.size(); i += static_cast<std::size_t>(format.num_values)) {
    format.widen(block, values.data() + i);
    block += format.num_bytes;
  }
  return out;
}

inline bool is_packed(const io::TensorView& tensor) {
  return tensor.name.find("layers.") != tensor.name.npos && tensor.shape.ndim() == 2 &&
         tensor.shape[-1] % 32 == 0;
}

// Copies a model in f32 with the matrices of its layers in blocks, or as the values of those.
inline void copy_packed(const std::string& from, const std::string& to,
                        const formats::BlockFormat& format, bool widen) {
  std::filesystem::copy(from, to, std::filesystem::copy_options::recursive);
  std::filesystem::remove(std::filesystem::path(to) / "model.safetensors");
  const io::WeightFiles files(from);
  std::vector<io::TensorSpec> specs;
  std::map<std::string, std::string> metadata = {{"format", "pt"}};
  std::map<std::string, std::vector<std::byte>> bytes;
  for (const std::string_view name : files.names()) {
    const io::TensorView view = files.tensor(name);
    io::TensorSpec spec{std::string(name), view.dtype, view.shape};
    std::vector<std::byte>& data = bytes[spec.name];
    data.assign(view.bytes.begin(), view.bytes.end());
    if (is_packed(view)) {
      std::vector<float> values(static_cast<std::size_t>(view.shape.num_elements()));
      std::memcpy(values.data(), data.data(), data.size());
      std::vector<std::byte> blocks = round_to_blocks(format, values, spec.shape[-1]);
      if (widen) {
        std::memcpy(data.data(), values.data(), data.size());
      } else {
        spec.dtype = DType::u8;
        spec.shape[-1] = format.bytes_of(spec.shape[-1]);
        metadata[io::blocks_key(name)] = format.name;
        data = std::move(blocks);
      }
    }
    specs.push_back(std::move(spec));
  }
  io::write_safetensors(
      to + "/model.safetensors", specs, metadata,
      [&](const io::TensorSpec& spec) { return std::span<const std::byte>(bytes.at(spec.name)); });
}

// A folder with a small model as "base", as "packed" with blocks, and as "wide" with their values.
struct PackedModel : TempDir {
  explicit PackedModel(
      const formats::BlockFormat& format = int8_blocks(),
      const std::string& model =
          "family = \"llama2\"\nmodel = { vocab_size = 258, hidden_size = 64, "
          "intermediate_size = 96, num_hidden_layers = 2, num_attention_heads = 4, "
          "num_key_value_heads = 2 }\n") {
    write("text.txt", text_of_words(40));
    RunOfFile fresh(write("fresh.toml", model +
                                            "data = { train = [\"text.txt\"], sequence_length = 24 "
                                            "}\ntrain = { steps = 1, batch_size = 2 }\n"
                                            "run = { out = \"fresh\", seed = 3 }\n"));
    fresh.train(0);
    model::export_model(fresh.checkpoint(), *this / "base", {.dtype = DType::f32}, built_plugins(),
                        cpu::cpu_backend());
    copy_packed(*this / "base", *this / "packed", format, false);
    copy_packed(*this / "base", *this / "wide", format, true);
  }
};

}  // namespace lamina::testing
