// A preset is a config as users write them (config_reader.h). Attention
// splits whole heads, which `chunk=auto` reads off the program; what is not
// named stays whole on every rank, as in such plans by hand; biases behind a
// sum are added once, so they stay whole too.
#include "frontend/presets.h"

#include <algorithm>
#include <regex>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "frontend/config_reader.h"
#include "ir/status.h"
#include "ir/value_names.h"

namespace tp {
namespace {

struct Preset {
  const char* name;
  // Regular expressions each of which some weight of such a model matches.
  std::vector<const char*> signs;
  const char* rules;
};

constexpr char kBert[] = R"(rules:
  - {search: 'attention\.self\.(query|key|value)\.', state: split 0 chunk=auto}
  - {search: 'intermediate\.dense\.', state: split 0}
  - {search: 'attention\.output\.dense\.weight$', state: split 1 chunk=auto}
  - {search: 'layer\.\d+\.output\.dense\.weight$', state: split 1}
  - {search: '(word|position|token_type)_embeddings\.weight$', state: split 1, optional: true}
  - {search: '(word|position|token_type)_embeddings$', of: output, state: replicate, optional: true}
  - {search: 'output\.dense$', of: output, state: replicate, optional: true}
  - {search: '.', state: replicate, optional: true}
)";

constexpr char kBloom[] = R"(rules:
  - {search: 'self_attention\.query_key_value\.', state: split 0 chunk=auto}
  - {search: 'mlp\.dense_h_to_4h\.', state: split 0}
  - {search: 'self_attention\.dense\.weight$', state: split 1 chunk=auto}
  - {search: 'mlp\.dense_4h_to_h\.weight$', state: split 1}
  - {search: 'word_embeddings\.weight$', state: split 1, optional: true}
  - {search: 'lm_head\.weight$', state: split 1, optional: true}
  - {search: 'word_embeddings$', of: output, state: replicate, optional: true}
  - {search: 'lm_head$', of: input, position: 0, state: split -1, optional: true}
  - {search: '(self_attention\.dense|dense_4h_to_h|lm_head)$', of: output, state: replicate, optional: true}
  - {search: '.', state: replicate, optional: true}
)";

// Q, V and K of a quarter of the heads follow each other, four times.
constexpr char kCodegen[] = R"(rules:
  - {search: 'attn\.qkv_proj\.', state: split 0 groups=12 chunk=auto}
  - {search: 'mlp\.fc_in\.', state: split 0}
  - {search: 'attn\.out_proj\.weight$', state: split 1 groups=4 chunk=auto}
  - {search: 'mlp\.fc_out\.weight$', state: split 1}
  - {search: 'wte\.weight$', state: split 1, optional: true}
  - {search: 'lm_head\.', state: split 0, optional: true}
  - {search: '(wte|attn\.out_proj|mlp\.fc_out|lm_head)$', of: output, state: replicate, optional: true}
  - {search: '.', state: replicate, optional: true}
)";

constexpr char kGpt2[] = R"(rules:
  - {search: 'attn\.c_attn\.weight$', state: split 1 groups=3 chunk=auto}
  - {search: 'attn\.c_attn\.bias$', state: split 0 groups=3 chunk=auto, optional: true}
  - {search: 'attn\.q_attn\.weight$', state: split 1 chunk=auto, optional: true}
  - {search: 'attn\.q_attn\.bias$', state: split 0 chunk=auto, optional: true}
  - {search: 'mlp\.c_fc\.weight$', state: split 1}
  - {search: 'mlp\.c_fc\.bias$', state: split 0, optional: true}
  - {search: 'attn\.c_proj\.weight$', state: split 0 chunk=auto}
  - {search: 'mlp\.c_proj\.weight$', state: split 0}
  - {search: 'w[tp]e\.weight$', state: split 1, optional: true}
  - {search: 'lm_head\.weight$', state: split 1, optional: true}
  - {search: 'w[tp]e$', of: output, state: replicate, optional: true}
  - {search: 'lm_head$', of: input, position: 0, state: split -1, optional: true}
  - {search: '(c_proj|lm_head)$', of: output, state: replicate, optional: true}
  - {search: '.', state: replicate, optional: true}
)";

constexpr char kGptNeoX[] = R"(rules:
  - {search: 'attention\.query_key_value\.', state: split 0 chunk=auto}
  - {search: 'mlp\.dense_h_to_4h\.', state: split 0}
  - {search: 'attention\.dense\.weight$', state: split 1 chunk=auto}
  - {search: 'mlp\.dense_4h_to_h\.weight$', state: split 1}
  - {search: 'embed_in\.weight$', state: split 1, optional: true}
  - {search: '(embed_out|lm_head)\.weight$', state: split 0, optional: true}
  - {search: '(embed_in|embed_out|lm_head|attention\.dense|dense_4h_to_h)$', of: output, state: replicate, optional: true}
  - {search: '.', state: replicate, optional: true}
)";

constexpr char kLlama[] = R"(rules:
  - {search: 'self_attn\.[qkv]_proj\.', state: split 0 chunk=auto}
  - {search: 'self_attn\.o_proj\.weight$', state: split 1 chunk=auto}
  - {search: 'mlp\.(gate|up)_proj\.', state: split 0}
  - {search: 'mlp\.down_proj\.weight$', state: split 1}
  - {search: 'embed_tokens\.weight$', state: split 1, optional: true}
  - {search: 'lm_head\.weight$', state: split 0, optional: true}
  - {search: '(embed_tokens|o_proj|down_proj|lm_head)$', of: output, state: replicate, optional: true}
  - {search: '.', state: replicate, optional: true}
)";

// Every rank holds its columns of all experts; each expert has gate and up
// halves in one weight, or both as weights of their own.
constexpr char kMixtral[] = R"(rules:
  - {search: 'self_attn\.[qkv]_proj\.', state: split 0 chunk=auto}
  - {search: 'self_attn\.o_proj\.weight$', state: split 1 chunk=auto}
  - {search: 'experts\.gate_up_proj$', state: split 1 groups=2, optional: true}
  - {search: 'experts\.down_proj$', state: split 2, optional: true}
  - {search: 'experts\.\d+\.w[13]\.weight$', state: split 0, optional: true}
  - {search: 'experts\.\d+\.w2\.weight$', state: split 1, optional: true}
  - {search: 'embed_tokens\.weight$', state: split 1, optional: true}
  - {search: 'lm_head\.weight$', state: split 0, optional: true}
  - {search: '(embed_tokens|o_proj|experts|lm_head)$', of: output, state: replicate, optional: true}
  - {search: '.', state: replicate, optional: true}
)";

// Cross attention stays whole.
constexpr char kT5[] = R"(rules:
  - {search: 'SelfAttention\.[qkv]\.weight$', state: split 0 chunk=auto}
  - {search: 'SelfAttention\.o\.weight$', state: split 1 chunk=auto}
  - {search: 'DenseReluDense\.wi(_[01])?\.weight$', state: split 0}
  - {search: 'DenseReluDense\.wo\.weight$', state: split 1}
  - {search: 'relative_attention_bias\.weight$', state: split 1, optional: true}
  - {search: '(shared|embed_tokens)\.weight$', state: split 1, optional: true}
  - {search: 'lm_head\.weight$', state: split 1, optional: true}
  - {search: 'lm_head$', of: input, position: 0, state: split -1, optional: true}
  - {search: '(shared|embed_tokens|SelfAttention\.o|DenseReluDense\.wo|lm_head)$', of: output, state: replicate, optional: true}
  - {search: '.', state: replicate, optional: true}
)";

// Of presets that share names, those with more signs come first.
const std::vector<Preset>& Presets() {
  static const auto* const presets = new std::vector<Preset>{
      {"bert", {R"(attention\.self\.query\.)", R"(intermediate\.dense\.)"},
       kBert},
      {"bloom",
       {R"(self_attention\.query_key_value\.)", "word_embeddings_layernorm"},
       kBloom},
      {"codegen", {R"(attn\.qkv_proj\.)", R"(mlp\.fc_in\.)"}, kCodegen},
      // Names as in bloom, with a head that shares the embedding.
      {"falcon",
       {R"(self_attention\.query_key_value\.)", R"(mlp\.dense_h_to_4h\.)"},
       kBloom},
      {"gpt2", {R"(attn\.c_attn\.)", R"(mlp\.c_fc\.)"}, kGpt2},
      {"gpt_neox", {R"(attention\.query_key_value\.)", "embed_in"}, kGptNeoX},
      {"mixtral", {R"(self_attn\.q_proj\.)", R"(\.experts\.)"}, kMixtral},
      {"llama", {R"(self_attn\.q_proj\.)", R"(mlp\.gate_proj\.)"}, kLlama},
      {"t5", {R"(SelfAttention\.q\.)", R"(DenseReluDense\.wi)"}, kT5},
  };
  return *presets;
}

}  // namespace

std::vector<std::string> PresetNames() {
  std::vector<std::string> names;
  for (const Preset& preset : Presets()) names.push_back(preset.name);
  std::sort(names.begin(), names.end());
  return names;
}

absl::StatusOr<UserRules> PresetRules(const std::string& name) {
  for (const Preset& preset : Presets())
    if (name == preset.name)
      return ParseConfig(preset.rules, absl::StrCat("preset ", name));
  return absl::InvalidArgumentError(absl::StrCat(
      "there is no preset \"", name, "\"; near names: ",
      NearNames(name, PresetNames()), "; all are ",
      absl::StrJoin(PresetNames(), ", ")));
}

absl::StatusOr<std::string> RecognizePreset(
    llvm::ArrayRef<std::string> weight_names) {
  for (const Preset& preset : Presets()) {
    const bool fits = llvm::all_of(preset.signs, [&](const char* sign) {
      const std::regex pattern(sign);
      return llvm::any_of(weight_names, [&](const std::string& name) {
        return std::regex_search(name, pattern);
      });
    });
    if (fits) return std::string(preset.name);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the weights have the names of no preset (",
      absl::StrJoin(PresetNames(), ", "),
      "): leave --preset auto out, and the plan is searched"));
}

}  // namespace tp
