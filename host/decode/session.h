// Decode state of a batch of sequences, and the programs that extend them.
//
//   Session session(model, weights.pointers(), {.capacity = 4096}, backend);
//   std::span<const float> logits = session.append({prompt});   // of the token after the prompt
//   logits = session.append({std::array{next}});
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "decoder/model.h"
#include "program/bound_program.h"

namespace lamina::decode {

struct SessionOptions {
  std::int64_t batch = 1;          // sequences
  std::int64_t capacity = 2048;    // tokens a sequence may reach
  std::int64_t call_tokens = 512;  // tokens of a prompt that are read at once
  DType dtype = DType::f32;
};

// What replaces the embeddings of placeholder tokens of a prompt: the output of an image or audio
// encoder.
struct EmbeddingOverrides {
  std::span<const float> rows;           // [R, D]
  std::span<const std::int32_t> index;   // one per token: its row, or -1
  std::span<const float> features = {};  // [layers, R, D]: added to the output of the first layers
  std::span<const std::int32_t> positions = {};  // [3, tokens]: time, height, width
};

// One number, from 1, for each run of tokens with rows: the image that a token is of; 0 = none.
std::vector<std::int32_t> number_images(std::span<const std::int32_t> index);

class Session {
 public:
  // `parameters`: one pointer per parameter of the model, valid as long as the session.
  Session(const decoder::Model& model, std::span<void* const> parameters,
          const SessionOptions& options, const Backend& backend);

  // Appends tokens to each sequence (some may get none) and returns the logits after the last of
  // each, [batch, vocab] row-major, valid until the next call. Rows of sequences that got none are
  // those of their last call. Long prompts are read in pieces. Throws UserError (exit 5) when a
  // sequence would pass the capacity.
  std::span<const float> append(std::span<const std::span<const std::int32_t>> tokens);
  // For one sequence.
  std::span<const float> append(std::span<const std::int32_t> tokens);

  // For one sequence, with images. Positions are those of the whole sequence; tokens that come
  // later continue after the largest of them. Without, each token has its index. Tokens with rows
  // that follow each other are one image; where its tokens see each other it is read at once.
  // Throws UserError (exit 5) where the session has several sequences, a span has another size than
  // the rest asks for, or an index names no row; (exit 2) for a model whose rotations depend on the
  // length, and for three positions where the model has one.
  std::span<const float> append(std::span<const std::int32_t> tokens,
                                const EmbeddingOverrides& overrides);

  // For one sequence: cuts it down to what it has in common with the beginning of `tokens`, less
  // the last of them where all are there (its logits are wanted), and returns how many tokens stay;
  // what is left of `tokens` is to be appended. Keys and values can be cut anywhere; where a state
  // cannot (recurrent ones, windows that moved on), the sequence is emptied instead.
  std::size_t keep_prefix(std::span<const std::int32_t> tokens);

  // Each sequence goes on from what the one of that number holds: the beams of a search.
  void reorder(std::span<const std::size_t> parents);

  // Empties every sequence, or one.
  void reset();
  void reset(std::int64_t row);

  std::int64_t length(std::int64_t row = 0) const {
    return static_cast<std::int64_t>(history_[static_cast<std::size_t>(row)].size());
  }
  std::span<const std::int32_t> tokens(std::int64_t row = 0) const {
    return history_[static_cast<std::size_t>(row)];
  }
  // Bytes of decode state, and of the largest arena so far.
  std::size_t state_bytes() const { return state_buffer_->bytes(); }
  std::size_t arena_bytes() const { return arena_ ? arena_->bytes() : 0; }

  // Returns the program for calls of `tokens` tokens, which is compiled where the session has none.
  // Valid until kMaxPrograms other ones have been used.
  program::BoundProgram& program(std::int64_t tokens);
  std::size_t num_programs() const { return programs_.size(); }

  // Prompts of many lengths would fill the memory of a long-lived process with programs.
  static constexpr std::size_t kMaxPrograms = 16;

 private:
  // What a program is made for.
  struct Call {
    std::int64_t tokens = 1;
    decoder::EmbeddingOverrideShape embedding_overrides = {};
    bool positions_3d = false;
    auto key() const {
      return std::tuple(tokens, embedding_overrides.count, embedding_overrides.layers,
                        positions_3d);
    }
    bool operator==(const Call& other) const { return key() == other.key(); }
  };
  program::BoundProgram& program(const Call& call);
  bool can_cut() const;
  void check(std::span<const std::int32_t> tokens, const EmbeddingOverrides& overrides) const;
  void check_capacity(std::int64_t length) const;  // of a sequence
  std::size_t piece(std::span<const std::int32_t> blocks, std::size_t first, Call call);
  void read(std::span<const std::span<const std::int32_t>> tokens);
  void call(std::span<const std::span<const std::int32_t>> piece, Call call);

  const decoder::Model& model_;
  std::vector<void*> parameters_;
  SessionOptions options_;
  const Backend& backend_;
  // The most recently used one first.
  std::list<std::pair<Call, std::unique_ptr<program::BoundProgram>>> programs_;
  std::unique_ptr<Buffer> state_buffer_, arena_;
  std::vector<void*> states_;
  std::vector<std::vector<std::int32_t>> history_;
  std::vector<std::int64_t> lengths_;  // tokens in the state, a row
  std::vector<std::int64_t> shifts_;   // the next token's position less that, a row
  std::vector<float> logits_, kept_logits_;
  // Inputs of a call.
  std::vector<std::int32_t> tokens_, positions_, segments_, start_, count_, rows_;
  std::vector<std::int32_t> positions_3d_, override_index_, image_blocks_;
  std::vector<std::byte> override_rows_, deepstack_features_;  // in the type of activations
};

}  // namespace lamina::decode
