#include "text/hf/decoder_chain.h"

#include <utility>

#include "core/utf8.h"
#include "text/characters.h"
#include "text/hf/byte_level.h"
#include "text/hf/json_parts.h"
#include "text/hf/normalizer.h"
#include "text/model.h"
#include "text/utf8_stream.h"

namespace lamina::text {
namespace {

using Emit = DecoderChain::Emit;
using Fragment = DecoderChain::Fragment;
using Mode = DecoderChain::Mode;
using Stage = DecoderChain::Stage;

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

// Joins all tokens into one.
class Fuse final : public Stage {
 public:
  explicit Fuse(Mode mode) : mode_(mode) {}
  void push(const Fragment& fragment, const Emit& emit) override {
    if (mode_ == Mode::streaming)
      emit({fragment.text, !std::exchange(begun_, true)});
    else
      text_ += fragment.text;
  }
  void finish(const Emit& emit) override {
    if (mode_ == Mode::whole) emit({text_});
  }

 private:
  Mode mode_;
  std::string text_;
  bool begun_ = false;
};

// All tokens are bytes in GPT-2's alphabet, or text outside it; they become one.
class ByteLevel final : public Stage {
 public:
  explicit ByteLevel(Mode mode) : text_(mode) {}
  void push(const Fragment& fragment, const Emit& emit) override {
    const auto bytes = byte_level_bytes(fragment.text);
    show(stream_.push(bytes ? *bytes : std::string(fragment.text)), emit);
  }
  void finish(const Emit& emit) override {
    show(stream_.finish(), emit);
    text_.finish(emit);
  }

 private:
  void show(const std::string& text, const Emit& emit) {
    if (!text.empty()) text_.push({text}, emit);
  }
  Utf8Stream stream_;
  Fuse text_;
};

// A run of tokens "<0xE4>" is a text if it is valid UTF-8 as a whole, else one U+FFFD per byte (the
// reference's rule). A stream shows characters as soon as they are complete.
class ByteFallback final : public Stage {
 public:
  explicit ByteFallback(Mode mode) : mode_(mode) {}

  void push(const Fragment& fragment, const Emit& emit) override {
    const auto byte = byte_of_token(fragment.text);
    if (!byte || !fragment.begins) {
      finish(emit);
      return emit(fragment);
    }
    bytes_ += static_cast<char>(*byte);
    if (mode_ == Mode::streaming && find_invalid_utf8(bytes_) == std::string::npos) flush(emit);
  }
  void finish(const Emit& emit) override {
    if (find_invalid_utf8(bytes_) == std::string::npos) {
      flush(emit);
    } else {
      for (std::size_t i = 0; i < bytes_.size(); ++i) emit({kReplacement});
      bytes_.clear();
    }
    run_shown_ = false;
  }

 private:
  void flush(const Emit& emit) {
    if (bytes_.empty()) return;
    emit({bytes_, !std::exchange(run_shown_, true)});
    bytes_.clear();
  }
  Mode mode_;
  std::string bytes_;
  bool run_shown_ = false;
};

// Turns the replacement character into a space, except in the first token, where a space was added
// in front: there it is removed.
class Metaspace final : public Stage {
 public:
  Metaspace(std::string replacement, bool drops_first)
      : replacement_(std::move(replacement)), drops_first_(drops_first) {}
  void push(const Fragment& fragment, const Emit& emit) override {
    if (fragment.begins) ++num_tokens_;
    const bool drops = drops_first_ && num_tokens_ <= 1;
    std::string out;
    for (std::string_view rest = fragment.text; !rest.empty();) {
      const std::size_t at = std::min(rest.find(replacement_), rest.size());
      out += rest.substr(0, at);
      if (at == rest.size()) break;
      if (!drops) out += ' ';
      rest.remove_prefix(at + replacement_.size());
    }
    emit({out, fragment.begins});
  }

 private:
  std::string replacement_;
  bool drops_first_;
  std::size_t num_tokens_ = 0;
};

class Replace final : public Stage {
 public:
  explicit Replace(std::shared_ptr<const Normalizer> replace) : replace_(std::move(replace)) {}
  void push(const Fragment& fragment, const Emit& emit) override {
    emit({replace_->normalize(fragment.text), fragment.begins});
  }

 private:
  std::shared_ptr<const Normalizer> replace_;
};

// Removes up to a number of one character from the beginning and from the end of every token.
class Strip final : public Stage {
 public:
  Strip(std::string character, std::uint64_t start, std::uint64_t stop)
      : character_(std::move(character)), start_(start), stop_(stop) {}

  void push(const Fragment& fragment, const Emit& emit) override {
    std::string_view text = fragment.text;
    if (fragment.begins) {
      held_ = 0;
      left_ = start_;
    }
    while (left_ > 0 && !text.empty()) {
      if (!text.starts_with(character_)) {
        left_ = 0;
        break;
      }
      text.remove_prefix(character_.size());
      --left_;
    }
    std::uint64_t trailing = 0;
    std::string_view kept = text;
    while (trailing < stop_ && !kept.empty() && kept.ends_with(character_)) {
      kept.remove_suffix(character_.size());
      ++trailing;
    }
    // The text held back is not the end, except for the part that still may be.
    const std::uint64_t may_hold = kept.empty() ? stop_ - trailing : 0;
    std::string out;
    for (; held_ > may_hold; --held_) out += character_;
    held_ += trailing;
    out += kept;
    emit({out, fragment.begins});
  }

 private:
  std::string character_;
  std::uint64_t start_, stop_;
  std::uint64_t left_ = 0, held_ = 0;
};

// Without a decoder the reference puts a space between tokens.
class JoinWithSpaces final : public Stage {
 public:
  void push(const Fragment& fragment, const Emit& emit) override {
    if (fragment.begins && std::exchange(begun_, true)) emit({" ", false});
    emit(fragment);
  }

 private:
  bool begun_ = false;
};

std::string one_character(const JsonValue& json) {
  const std::string_view text = json.as_string();
  if (text.empty() || character_bytes(text[0]) != text.size())
    json.fail(fmt::format("must be one character, got {}", json.describe()));
  return std::string(text);
}

using MakeStage = DecoderChain::MakeStage;

MakeStage byte_level(const JsonValue&) {
  return [](Mode mode) { return std::make_unique<ByteLevel>(mode); };
}
MakeStage byte_fallback(const JsonValue&) {
  return [](Mode mode) { return std::make_unique<ByteFallback>(mode); };
}
MakeStage fuse(const JsonValue&) {
  return [](Mode mode) { return std::make_unique<Fuse>(mode); };
}
MakeStage metaspace(const JsonValue& json) {
  const JsonValue scheme = json.find("prepend_scheme");
  const JsonValue prefix = json.find("add_prefix_space");  // in older files
  const bool drops = scheme && !scheme.is_null() ? scheme.as_string() != "never"
                                                 : !prefix || prefix.is_null() || prefix.as_bool();
  return [replacement = one_character(json.at("replacement")), drops](Mode) {
    return std::make_unique<Metaspace>(replacement, drops);
  };
}
MakeStage replace(const JsonValue& json) {
  auto normalizer = std::make_shared<const Normalizer>(json);  // it has the same format there
  return [normalizer](Mode) { return std::make_unique<Replace>(normalizer); };
}
MakeStage strip(const JsonValue& json) {
  return [character = one_character(json.at("content")), start = json.at("start").as_uint64(),
          stop = json.at("stop").as_uint64()](Mode) {
    return std::make_unique<Strip>(character, start, stop);
  };
}

struct Kind {
  std::string_view name;
  MakeStage (*make)(const JsonValue& json);
};
constexpr Kind kKinds[] = {
    {"ByteLevel", byte_level},
    {"ByteFallback", byte_fallback},
    {"Metaspace", metaspace},
    {"Replace", replace},
    {"Fuse", fuse},
    {"Strip", strip},
};

}  // namespace

DecoderChain::DecoderChain(const JsonValue& json) {
  if (json && !json.is_null())
    add(json);
  else
    stages_.emplace_back([](Mode) { return std::make_unique<JoinWithSpaces>(); });
  is_byte_level_ = has_byte_level_ && stages_.size() == 1;
}

DecoderChain DecoderChain::byte_level() {
  DecoderChain out;
  out.stages_.push_back([](Mode mode) { return std::make_unique<ByteLevel>(mode); });
  out.is_byte_level_ = out.has_byte_level_ = true;
  return out;
}

void DecoderChain::add(const JsonValue& json) {
  const std::string_view type = json.at("type").as_string();
  if (type == "Sequence") {
    for (JsonValue step : json.at("decoders").elements()) add(step);
    return;
  }
  stages_.push_back(find_kind(kKinds, json, "decoder").make(json));
  has_byte_level_ = has_byte_level_ || type == "ByteLevel";
  has_byte_fallback_ = has_byte_fallback_ || type == "ByteFallback";
}

DecoderChain::Stream::Stream(const DecoderChain& chain, Mode mode) {
  for (const MakeStage& make : chain.stages_) stages_.push_back(make(mode));
}

void DecoderChain::Stream::pass(std::size_t stage, const Fragment& fragment) {
  if (stage == stages_.size()) {
    out_ += fragment.text;
    return;
  }
  stages_[stage]->push(fragment, [&](const Fragment& next) { pass(stage + 1, next); });
}

std::string DecoderChain::Stream::push(std::string_view token) {
  pass(0, {token});
  return std::exchange(out_, {});
}

std::string DecoderChain::Stream::finish() {
  for (std::size_t i = 0; i < stages_.size(); ++i)
    stages_[i]->finish([&](const Fragment& next) { pass(i + 1, next); });
  return std::exchange(out_, {});
}

}  // namespace lamina::text
