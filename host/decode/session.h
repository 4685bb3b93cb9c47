// Decode state of a batch of sequences, and the programs that extend them.
//
//   Session session(model, weights.pointers(), {.capacity = 4096}, backend);
//   std::span<const float> logits = session.append({prompt});   // of the token after the prompt
//   logits = session.append({std::array{next}});
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "decode/shortlist_rows.h"
#include "decode/state_storage.h"
#include "decoder/model.h"
#include "program/bound_program.h"

namespace lamina::decode {

struct SessionOptions {
  std::int64_t batch = 1;          // sequences
  std::int64_t capacity = 2048;    // maximum tokens per sequence
  std::int64_t call_tokens = 512;  // maximum tokens of a prompt per call
  DType dtype = DType::f32;
};

// Replacements for the embeddings of placeholder tokens of a prompt: the output of an image or
// audio encoder.
struct EmbeddingOverrides {
  std::span<const float> rows;           // [R, D]
  std::span<const std::int32_t> index;   // one per token: its row, or -1
  std::span<const float> features = {};  // [layers, R, D]: added to the output of the first layers
  std::span<const std::int32_t> positions = {};  // [3, tokens]: time, height, width
};

// One number, from 1, per run of tokens with rows: the image of a token; 0 = none.
std::vector<std::int32_t> number_images(std::span<const std::int32_t> index);

class Session {
 public:
  // `parameters`: one tensor per parameter of the model, valid as long as the session.
  Session(const decoder::Model& model, std::span<const ConstTensorRef> parameters,
          const SessionOptions& options, const Backend& backend);

  // Appends tokens to each sequence (some may get none) and returns the logits after the last token
  // of each, [batch, vocab] row-major, valid until the next call. Rows of sequences without new
  // tokens keep the logits of their last call. Long prompts are read in pieces. Throws UserError if
  // a sequence would exceed the capacity (exit 5), or if its length changes rotations and it has
  // more tokens than a call (exit 2); the sequences are then as before.
  std::span<const float> append(std::span<const std::span<const std::int32_t>> tokens);
  // For one sequence.
  std::span<const float> append(std::span<const std::int32_t> tokens);

  // Makes append() return no logits: then shortlist() and logits() have its result, for sequences
  // with as many new tokens as the longest. Ignored if the host reaches the memory of the device,
  // because whole rows then cost no copy. A whole shape ends it.
  void set_shortlists(const ShortlistShape& shape);
  // True if append() returns nothing.
  bool has_shortlists() const { return lists_.has_value(); }
  // Sets the numbers that the shortlists of the next call depend on: the temperature, and a draw in
  // [0, 1) per sequence. REQUIRES: has_shortlists().
  void set_draws(double temperature, std::span<const double> draws) {
    lists_->set_draws(temperature, draws);
  }
  // Valid until the next call. REQUIRES: has_shortlists().
  Shortlist shortlist(std::int64_t row = 0) const { return lists_->row(row); }
  // Copies a whole row from the device. Valid until the next call. REQUIRES: has_shortlists().
  std::span<const float> logits(std::int64_t row = 0);

  // For one sequence, with images. Positions cover the whole sequence; later tokens continue after
  // the largest of them. Without positions, each token's is its index. Adjacent tokens with rows
  // are one image; if its tokens see each other, it is read in one call. Throws UserError (exit 5)
  // if the session has several sequences, a span has a wrong size, or an index refers to no row;
  // (exit 2) for a model whose rotations depend on the length, and for three positions in a model
  // with one.
  std::span<const float> append(std::span<const std::int32_t> tokens,
                                const EmbeddingOverrides& overrides);

  // For one sequence: cuts it to its common beginning with `tokens`, without the last token if all
  // are in it (its logits are needed), and returns the number of tokens kept; the rest of `tokens`
  // must then be appended. Keys and values can be cut anywhere; if a state cannot (recurrent ones,
  // windows that moved on), the sequence is emptied instead.
  std::size_t keep_prefix(std::span<const std::int32_t> tokens);

  // Sets each sequence to `tokens` without reading them: write() must set all of each state.
  // For measurements after long contexts. Throws UserError (exit 5) as append().
  using WriteState = std::function<void(const decoder::StateTensor&, const TensorRef&)>;
  void restore(std::span<const std::span<const std::int32_t>> tokens, const WriteState& write);

  // Each sequence continues from the state of the sequence with that number: the beams of a search.
  void reorder(std::span<const std::size_t> parents);

  // Empties every sequence, or one.
  void reset();
  void reset(std::int64_t row);

  std::int64_t vocab_size() const { return model_.vocab_size(); }
  std::int64_t length(std::int64_t row = 0) const {
    return static_cast<std::int64_t>(history_[static_cast<std::size_t>(row)].size());
  }
  std::span<const std::int32_t> tokens(std::int64_t row = 0) const {
    return history_[static_cast<std::size_t>(row)];
  }
  // Bytes of decode state, and of the largest arena so far.
  std::size_t state_bytes() const { return state_.memory->bytes(); }
  std::size_t arena_bytes() const { return arena_ ? arena_->bytes() : 0; }

  // Returns the program for calls of `tokens` tokens, compiling it if the session has none. Valid
  // until kMaxPrograms other programs have been used.
  program::BoundProgram& program(std::int64_t tokens);
  std::size_t num_programs() const { return programs_.size(); }

  // Programs for prompts of many lengths would fill the memory of a long-lived process.
  static constexpr std::size_t kMaxPrograms = 16;

 private:
  // The key of a program.
  struct Call {
    std::int64_t tokens = 1;
    decoder::EmbeddingOverrideShape embedding_overrides = {};
    bool positions_3d = false;
    ShortlistShape shortlists = {};  // of the session
    auto key() const {
      return std::tuple(tokens, embedding_overrides.count, embedding_overrides.layers, positions_3d,
                        shortlists.likeliest, shortlists.at_draw);
    }
    bool operator==(const Call& other) const { return key() == other.key(); }
  };
  program::BoundProgram& program(Call call);
  std::unique_ptr<program::BoundProgram> compiled(const Call& call);
  Type logits_type() const;
  std::span<const float> appended() const;  // the result of append()
  bool can_cut(std::int64_t kept) const;
  bool rotation_differs(std::int64_t before, std::int64_t after) const;
  void check_calls(std::span<const std::span<const std::int32_t>> tokens, bool from_start) const;
  void check(std::span<const std::int32_t> tokens, const EmbeddingOverrides& overrides) const;
  void check_capacity(std::int64_t length) const;  // of a sequence
  std::size_t piece(std::span<const std::int32_t> blocks, std::size_t first, Call call);
  void read(std::span<const std::span<const std::int32_t>> tokens);
  void call(std::span<const std::span<const std::int32_t>> piece, Call call);

  const decoder::Model& model_;
  std::vector<ConstTensorRef> parameters_;
  SessionOptions options_;
  const Backend& backend_;
  // The most recently used program first.
  std::list<std::pair<Call, std::unique_ptr<program::BoundProgram>>> programs_;
  std::vector<decoder::StateTensor> states_;
  StateTensors state_;  // one per element of states_
  std::unique_ptr<Buffer> arena_;
  std::vector<std::vector<std::int32_t>> history_;
  std::vector<std::int64_t> lengths_;  // tokens in the state, per row
  std::vector<std::int64_t> shifts_;   // the next token's position minus its index, per row
  std::vector<float> logits_, kept_logits_;
  std::optional<ShortlistRows> lists_;
  std::unique_ptr<Buffer> device_logits_;  // [batch, vocab], with shortlists
  // Inputs of a call.
  std::vector<std::int32_t> tokens_, positions_, segments_, start_, count_, rows_;
  std::vector<std::int32_t> positions_3d_, override_index_, image_blocks_;
  std::vector<std::byte> override_rows_, deepstack_features_;  // in the type of activations
};

}  // namespace lamina::decode
