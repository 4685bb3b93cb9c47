#include "data/token_store.h"

#include <algorithm>

#include "core/error.h"
#include "core/read_file.h"

namespace lamina::data {

TokenStore tokenize_files(const std::vector<std::string>& patterns, Separator separator,
                          const text::Tokenizer& tokenizer, std::int64_t vocab_size,
                          const std::function<void()>& between) {
  TokenStore store;
  store.files = find_files(patterns);
  const auto eos = tokenizer.eos_id();
  for (const std::string& file : store.files) {
    const TextFileCounts counts = read_documents(file, separator, [&](std::string_view document) {
      const std::size_t first = store.tokens.size();
      const std::vector<text::TokenId> ids = tokenizer.encode(document);
      store.tokens.insert(store.tokens.end(), ids.begin(), ids.end());
      if (eos && (ids.empty() || ids.back() != *eos)) store.tokens.push_back(*eos);
      store.document_begin.push_back(store.tokens.size());
      const auto largest = std::max_element(
          store.tokens.begin() + static_cast<std::ptrdiff_t>(first), store.tokens.end());
      if (largest != store.tokens.end() && *largest >= vocab_size)
        throw UserError(
            ExitCode::data,
            {file,
             fmt::format("the tokenizer gives the id {} (\"{}\"), but the model has ids 0 to {}",
                         *largest, printable(tokenizer.token_bytes(*largest), 40), vocab_size - 1),
             {fmt::format("use the model's own tokenizer, or set model.vocab_size to at least {}",
                          tokenizer.vocab_size())}});
      if (between) between();
    });
    store.counts.num_documents += counts.num_documents;
    store.counts.num_empty_documents += counts.num_empty_documents;
    store.counts.num_bytes += counts.num_bytes;
  }
  if (store.tokens.empty())
    throw UserError(ExitCode::data,
                    {store.files.front(),
                     store.files.size() == 1
                         ? "the file holds no text"
                         : fmt::format("none of the {} files holds text", store.files.size()),
                     {"give files with text in them"}});
  return store;
}

}  // namespace lamina::data
