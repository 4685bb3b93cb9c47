// The plugin and its families; each generation has its equations in one file.

#include "families.h"
#include "moe.h"
#include "next.h"

LAMINA_PLUGIN("org.lamina.qwen", "0.1.0", qwen::kQwen2, qwen::kQwen3, qwen::kQwen3Vl,
              qwen::kQwen3Moe, qwen::kQwen3VlMoe, qwen::kQwen3OmniMoe, qwen::kQwen3CustomMoe,
              qwen::kQwen3Next, qwen::kQwen35, qwen::kQwen35Moe)
