// A small published model in a separate folder, with a tokenizer of a few words, so that it can be
// trained on a text.
#pragma once

#include <filesystem>
#include <string>

#include "support/goldens.h"
#include "support/temp_dir.h"

namespace lamina::testing {

// These words and full stops are one token each.
inline std::string text_of_words(int sentences, unsigned state = 1) {
  const char* words[] = {"the", "light", "was", "upon", "a", "deep", "river", "rose"};
  std::string out;
  for (int i = 0; i < sentences; ++i)
    for (int w = 0; w < 6; ++w) {
      state = state * 1664525u + 1013904223u;
      out += std::string(words[state >> 16 & 7]) + (w < 5 ? " " : " .\n");
    }
  return out;
}

// A word-level tokenizer, with `more` added tokens after the first twelve.
inline std::string tokenizer_of_words(int more = 0) {
  std::string added, vocabulary = R"("<unk>":0,"<s>":1,"</s>":2)";
  int next = 3;
  for (const char* word : {"the", "light", "was", "upon", "a", "deep", "river", "rose", "."})
    vocabulary += ",\"" + std::string(word) + "\":" + std::to_string(next++);
  auto add = [&](const std::string& text, int id) {
    added += std::string(added.empty() ? "" : ",") + R"({"id":)" + std::to_string(id) +
             R"(,"content":")" + text +
             R"(","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,)" +
             R"("special":true})";
  };
  add("<unk>", 0);
  add("<s>", 1);
  add("</s>", 2);
  for (int i = 0; i < more; ++i) add("<new" + std::to_string(i) + ">", next++);
  return R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[)" + added +
         R"(],"normalizer":null,"pre_tokenizer":{"type":"Whitespace"},"post_processor":null,)" +
         R"("decoder":null,"model":{"type":"WordLevel","vocab":{)" + vocabulary +
         R"(},"unk_token":"<unk>"}})";
}

// Copies the golden case, or model directory, into `name` of the folder and adds tokenizer and
// generation files.
inline std::string add_published_model(const TempDir& folder, const std::filesystem::path& golden,
                                       const std::string& name = "model") {
  namespace fs = std::filesystem;
  fs::create_directories(folder / name);
  for (const fs::directory_entry& file : fs::directory_iterator(golden)) {
    const std::string base = file.path().filename().string();
    if (file.is_regular_file() && !base.starts_with("golden"))
      fs::copy_file(file.path(), fs::path(folder / name) / base);
  }
  for (const fs::directory_entry& file : fs::directory_iterator(folder / name))
    fs::permissions(file.path(), fs::perms::owner_all);
  folder.write(name + "/tokenizer.json", tokenizer_of_words());
  folder.write(name + "/tokenizer_config.json",
               "{ \"bos_token\": \"<s>\", \"eos_token\": \"</s>\","
               " \"chat_template\": \"{{ messages }}\" }");
  folder.write(name + "/special_tokens_map.json", "{\"eos_token\" :\"</s>\"}\n\n");
  folder.write(name + "/generation_config.json", "{\"eos_token_id\": [2, 11],\"top_k\": 3}");
  folder.write(name + "/chat_template.jinja", "{{ messages }}\r\n");
  return folder / name;
}

// Some models are only in $LAMINA_GOLDENS.
inline bool has_golden_model(const std::string& golden) {
  return std::filesystem::is_directory(golden_dir() / "hf" / golden);
}

inline std::string add_golden_model(const TempDir& folder, const std::string& golden) {
  return add_published_model(folder, golden_dir() / "hf" / golden);
}

}  // namespace lamina::testing
