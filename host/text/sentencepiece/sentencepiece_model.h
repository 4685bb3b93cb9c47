// The models of SentencePiece (Kudo & Richardson 2018), BPE and Unigram, as the library computes
// them: pieces are merged by score, numbers are of 32 bits, user-defined pieces always count.
#pragma once

#include <memory>
#include <vector>

#include "text/model.h"
#include "text/sentencepiece/sentencepiece_file.h"

namespace lamina::text {

// `path` for errors (class checkpoint): a piece that is there twice.
std::unique_ptr<WordModel> make_sentencepiece_model(const SentencePieceFile& file,
                                                    const std::string& path);

}  // namespace lamina::text
