// Converts tokens back to text: the decoder of tokenizer.json. Tokens pass through its stages one
// by one, so that text can be shown while it arrives.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"

namespace lamina::text {

class DecoderChain {
 public:
  // Knowledge of a stage: all tokens are given, or more may follow.
  enum class Mode { whole, streaming };

  // Text passed between stages: a new token, or more text of the last one.
  struct Fragment {
    std::string_view text;
    bool begins = true;
  };
  using Emit = std::function<void(const Fragment&)>;
  class Stage {
   public:
    virtual ~Stage() = default;
    virtual void push(const Fragment& fragment, const Emit& emit) = 0;
    virtual void finish(const Emit&) {}
  };
  using MakeStage = std::function<std::unique_ptr<Stage>(Mode mode)>;

  // Reads the value of the key "decoder"; null puts a space between tokens. Errors (class
  // checkpoint): a type that lamina lacks.
  explicit DecoderChain(const JsonValue& json);

  static DecoderChain byte_level();

  // True if the chain is only ByteLevel: then the text is the bytes of the tokens.
  bool is_byte_level() const { return is_byte_level_; }
  // True if a stage is ByteLevel: then a token may be a part of a character.
  bool has_byte_level() const { return has_byte_level_; }
  // True if tokens "<0xE4>" are bytes.
  bool has_byte_fallback() const { return has_byte_fallback_; }

  class Stream {
   public:
    Stream(const DecoderChain& chain, Mode mode);
    // The text that is certain after one more token.
    std::string push(std::string_view token);
    std::string finish();

   private:
    void pass(std::size_t stage, const Fragment& fragment);
    std::vector<std::unique_ptr<Stage>> stages_;
    std::string out_;
  };

 private:
  DecoderChain() = default;
  void add(const JsonValue& json);
  std::vector<MakeStage> stages_;
  bool is_byte_level_ = false, has_byte_level_ = false;
  bool has_byte_fallback_ = false;
};

}  // namespace lamina::text
