#include "support/tokenizer_grammar.h"

#include <array>
#include <utility>
#include <vector>

#include "core/json_writer.h"
#include "core/utf8.h"

namespace lamina::testing {
namespace {

// The characters of GPT-2's alphabet, by byte.
std::vector<std::string> alphabet() {
  std::vector<std::string> out;
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable =
        (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    out.emplace_back();
    utf8_append(out.back(), printable ? static_cast<char32_t>(byte) : next++);
  }
  return out;
}

class Writer {
 public:
  explicit Writer(const Choose& choose) : choose_(choose) {
    // Half of the documents have no mistake, the others one in 4 to 64 values.
    mistakes_ = choose_(2) == 0 ? 0 : 4U << choose_(5);
  }

  TokenizerDocument document() {
    make_vocabulary();
    std::string json =
        object({{"version", [&] { return json_quote("1.0"); }},
                {"added_tokens", [&] { return list(choose_(4), [&] { return added(); }); }},
                {"normalizer", [&] { return normalizer(2); }},
                {"pre_tokenizer", [&] { return pre_tokenizer(); }},
                {"post_processor", [&] { return post_processor(2); }},
                {"decoder", [&] { return decoder(2); }},
                {"model", [&] { return model(); }}});
    return {std::move(json), keeps_text_};
  }

 private:
  using Make = std::function<std::string()>;
  struct Member {
    const char* key;
    Make make;
  };

  bool one_in(std::uint32_t n) { return choose_(n) == 0; }
  template <std::size_t N>
  std::string one_of(const std::array<const char*, N>& words) {
    return json_quote(words[choose_(N)]);
  }
  std::string truth() { return one_in(2) ? "true" : "false"; }
  std::string changes_text(std::string json) {
    keeps_text_ = false;
    return json;
  }

  // Returns the result of `make`, or sometimes another value.
  std::string value(const Make& make) {
    if (mistakes_ == 0 || !one_in(mistakes_)) return make();
    static constexpr std::array kOthers = {
        "null", "true",  "0",  "-1", "2",    "4294967297", "1e300",     "18446744073709551615",
        "\"\"", "\"A\"", "[]", "{}", "[[]]", "[0]",        "[\"<s>\"]", "{\"type\":\"Sequence\"}"};
    return changes_text(kOthers[choose_(kOthers.size())]);
  }
  std::string object(const std::vector<Member>& members) {
    std::string out;
    for (const Member& member : members) {
      if (mistakes_ != 0 && one_in(mistakes_)) {  // skipped
        keeps_text_ = false;
        continue;
      }
      out += (out.empty() ? "" : ",") + json_quote(member.key) + ":" + value(member.make);
    }
    return "{" + out + "}";
  }
  std::string list(std::uint32_t length, const Make& make) {
    if (mistakes_ != 0 && one_in(mistakes_)) length = choose_(4), keeps_text_ = false;
    std::string out;
    for (std::uint32_t i = 0; i < length; ++i) out += (i == 0 ? "" : ",") + value(make);
    return "[" + out + "]";
  }

  std::string id() {
    return mistakes_ != 0 && one_in(mistakes_)
               ? changes_text(std::to_string(choose_(1U << 30)))
               : std::to_string(choose_(static_cast<std::uint32_t>(tokens_.size())));
  }
  std::string token() {
    return json_quote(tokens_[choose_(static_cast<std::uint32_t>(tokens_.size()))]);
  }

  // The bytes, and tokens that join two earlier ones.
  void make_vocabulary() {
    tokens_ = alphabet();
    for (std::uint32_t i = choose_(12); i > 0; --i) {
      const auto size = static_cast<std::uint32_t>(tokens_.size());
      const std::string left = tokens_[choose_(size)], right = tokens_[choose_(size)];
      merges_.push_back({left, right});
      tokens_.push_back(left + right);
    }
  }

  std::string model() {
    const bool pairs = one_in(2);
    std::size_t next = 0;
    const Make merge = [&] {
      if (merges_.empty()) return std::string("\"a b\"");  // too long a list
      const auto& [left, right] = merges_[next++ % merges_.size()];
      return pairs ? "[" + json_quote(left) + "," + json_quote(right) + "]"
                   : json_quote(left + " " + right);
    };
    return object(
        {{"type", [] { return json_quote("BPE"); }},
         {"ignore_merges", [&] { return truth(); }},
         {"dropout", [] { return std::string("null"); }},
         {"vocab", [&] { return vocabulary(); }},
         {"merges", [&] { return list(static_cast<std::uint32_t>(merges_.size()), merge); }}});
  }
  std::string vocabulary() {
    std::string out;
    for (std::size_t i = 0; i < tokens_.size(); ++i)
      out += (i == 0 ? "" : ",") + json_quote(tokens_[i]) + ":" +
             value([&] { return std::to_string(i); });
    return "{" + out + "}";
  }

  std::string added() {
    const std::size_t id = tokens_.size() + choose_(3);
    return object({{"id", [&] { return std::to_string(id); }},
                   {"content", [&] { return json_quote("<" + std::to_string(id) + ">"); }},
                   {"single_word", [&] { return truth(); }},
                   {"lstrip", [&] { return one_in(4) ? changes_text("true") : "false"; }},
                   {"rstrip", [&] { return one_in(4) ? changes_text("true") : "false"; }},
                   {"normalized", [&] { return truth(); }},
                   {"special", [&] { return truth(); }}});
  }

  std::string normalizer(int depth) {
    if (one_in(2)) return "null";
    keeps_text_ = false;
    if (depth > 0 && one_in(3))
      return object({{"type", [] { return json_quote("Sequence"); }},
                     {"normalizers",
                      [&] { return list(choose_(3), [&] { return normalizer(depth - 1); }); }}});
    return object({{"type", [&] {
                      return one_of(std::array{"NFC", "NFD", "NFKC", "NFKD", "Lowercase",
                                               "StripAccents", "Replace"});
                    }}});
  }

  std::string byte_level() {
    return object({{"type", [] { return json_quote("ByteLevel"); }},
                   {"add_prefix_space", [&] { return one_in(4) ? changes_text("true") : "false"; }},
                   {"use_regex", [&] { return truth(); }}});
  }
  std::string split() {
    const Make pattern = [&] {
      if (one_in(2)) return object({{"String", [&] { return token(); }}});
      return object({{"Regex", [&] {
                        return one_of(std::array{"\\p{N}{1,3}", "\\s+", "[^a]|a+", "(?i:b)", "x*",
                                                 "(", "(?<=a)b"});
                      }}});
    };
    return object({{"type", [] { return json_quote("Split"); }},
                   {"pattern", pattern},
                   {"behavior",
                    [&] {
                      if (one_in(5)) return changes_text(json_quote("Removed"));
                      return one_of(std::array{"Isolated", "Contiguous", "MergedWithPrevious",
                                               "MergedWithNext"});
                    }},
                   {"invert", [&] { return truth(); }}});
  }
  std::string pre_tokenizer() {
    if (one_in(2)) return byte_level();
    std::uint32_t left = 1 + choose_(3);
    const Make step = [&] {
      if (--left == 0) return byte_level();
      if (one_in(2)) return split();
      return object({{"type", [] { return json_quote("Digits"); }},
                     {"individual_digits", [&] { return truth(); }}});
    };
    return object({{"type", [] { return json_quote("Sequence"); }},
                   {"pretokenizers", [&] { return list(left, step); }}});
  }

  std::string pair() {
    bool first = true;
    return list(2, [&] { return std::exchange(first, false) ? token() : id(); });
  }
  std::string post_processor(int depth) {
    switch (choose_(depth > 0 ? 5 : 4)) {
      case 0:
        return "null";
      case 1:
        return object({{"type", [] { return json_quote("ByteLevel"); }}});
      case 2:
        return object({{"type",
                        [&] {
                          return one_of(std::array{"RobertaProcessing", "BertProcessing"});
                        }},
                       {"sep", [&] { return pair(); }},
                       {"cls", [&] { return pair(); }}});
      case 3:
        return object(
            {{"type", [] { return json_quote("TemplateProcessing"); }},
             {"single", [&] { return template_of_one(); }},
             {"special_tokens", [&] {
                return object(
                    {{"<s>", [&] {
                        return object({{"ids", [&] { return list(1, [&] { return id(); }); }}});
                      }}});
              }}});
      default:
        return object({{"type", [] { return json_quote("Sequence"); }},
                       {"processors", [&] {
                          return list(choose_(3), [&] { return post_processor(depth - 1); });
                        }}});
    }
  }
  std::string template_of_one() {
    std::uint32_t at = 0;
    return list(3, [&] {
      const bool text = at++ == 1;
      return object({{text ? "Sequence" : "SpecialToken", [&] {
                        return object({{"id", [&] { return json_quote(text ? "A" : "<s>"); }}});
                      }}});
    });
  }

  std::string decoder(int depth) {
    if (depth > 0 && one_in(4))
      return object({{"type", [] { return json_quote("Sequence"); }},
                     {"decoders", [&] { return list(1, [&] { return decoder(depth - 1); }); }}});
    return object({{"type", [] { return json_quote("ByteLevel"); }}});
  }

  const Choose& choose_;
  std::uint32_t mistakes_ = 0;  // one in this many values; 0 = none
  bool keeps_text_ = true;
  std::vector<std::string> tokens_;
  std::vector<std::pair<std::string, std::string>> merges_;
};

}  // namespace

TokenizerDocument make_tokenizer_document(const Choose& choose) {
  return Writer(choose).document();
}

}  // namespace lamina::testing
