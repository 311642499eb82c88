// Chinese for the descriptions of the API, which the server has in English only.

const CALLS = {
  "GET /api/library": "已加载的内容。",
  "GET /api/library/{name}": "一个模型、索引或语料的说明卡。",
  "GET /api/library/{name}/curve": "训练过程的记录（training.jsonl）。",
  "GET /api/words": "词表，常用词在前；prefix 只列以它开头的词。",
  "GET /api/neighbours": "一个词的近邻词及余弦相似度。",
  "GET /api/graph": "一个词、它的近邻词，以及它们之间的相似度。",
  "GET /api/analogy": "a 之于 b，如同 c 之于……",
  "GET /api/map": "平面上的常用词；t-SNE 在后台计算，state 为 computing 时请稍后再请求。",
  "POST /api/encode/tokens": "每个词、每一层各一个向量。",
  "POST /api/encode/texts": "每段文本一个向量。",
  "GET /api/tokens": "按模型训练文本的方式分词。",
  "POST /v1/embeddings": "与 OpenAI 的接口相同。",
  "GET /v1/models": "与 OpenAI 的接口相同：可用的模型。",
  "GET /api/senses": "一个词的各种用法：各处用例的聚类、比例、典型句和可替换的词。",
  "GET /api/uses": "一种用法的全部出处，可排序，附前后句和来源。",
  "POST /api/same-sense": "与句中某词用法相同的出处，以及模型在该处预测的词。",
  "GET /api/concordance": "字符串、正则表达式或词语的上下文、频次与分布。",
  "GET /api/collocates": "常与之同现的词及其关联强度。",
  "GET /api/sentences": "一个词或几个相连的词所在的句子。",
  "POST /api/texts/search": "与查询最相近的文本。",
  "GET /api/sentence": "语料中的一个句子：原文与分词。",
  "POST /api/predict": "任务模型对文本的预测。",
  "POST /api/attention": "句中每个词对其他各词的注意力，Transformer 的一层一头。",
};

const FIELDS = {
  "a model, an index or a corpus": "模型、索引或语料",
  "also how much each word mattered, if the head has attention": "同时给出每个词的权重（任务头支持时）",
  "how many": "个数",
  "its number; default: all": "用法的编号，默认全部",
  "name of a corpus or an index": "语料或索引的名称",
  "name of a loaded index": "已加载索引的名称",
  "what a text without any known word gives: zeros, NaN (null in JSON) or an error": "没有任何已知词的文本返回什么：零向量、NaN（JSON 中为 null）或报错",
  "name of a loaded model": "已加载模型的名称",
  "name of a loaded model, index or corpus": "已加载模型、索引或语料的名称",
  "neighbouring texts shown": "显示的相邻文本数",
  "tag of the first word: n, or n*": "第一个词的标记：n 或 n*",
  "the most frequent words": "最常用的词数",
  "how to read the query": "查询的类型",
};

// Parameters whose name says nearly all: what they mean, in English and Chinese.
const NAMES = {
  a: ["a is to b …", "a 之于 b"],
  any_word: ["occurrences of other words too", "也找其他词的用例"],
  b: ["a is to b …", "a 之于 b"],
  by: ["score that sorts the collocates", "搭配词的排序依据"],
  c: ["… as c is to the answer", "如同 c 之于答案"],
  dimensions: ["length of the vectors; fewer only where a model's first dimensions are a smaller model", "向量维数；仅当模型的前若干维本身就是较小的模型时才能取更少的维数"],
  encoding_format: ["format of the numbers", "数值的写法"],
  head: ["number of the attention head, from 1", "注意力头的编号，从 1 起"],
  how: ["by meaning, by words, or by both", "按语义、按字词，或两者"],
  input: ["a text, or a list of texts", "一段文本或多段文本"],
  layer: ["number of the layer; default: the usual one", "层的编号；不给则用默认层"],
  layers: ["which layers: all, top, mean, mix or a number", "哪些层：all、top、mean、mix 或层号"],
  left: ["words to the left", "左侧窗口的词数"],
  limit: ["how many", "个数"],
  max_senses: ["maximum number of uses", "用法的最大数目"],
  method: ["how it is computed", "计算方法"],
  min_count: ["minimum count of a collocate", "搭配词的最低共现次数"],
  name: ["name of a loaded model, index or corpus", "已加载模型、索引或语料的名称"],
  number: ["number of the sentence, from 0", "句子的编号，从 0 起"],
  offset: ["how many to skip", "跳过的个数"],
  pairs: ["pairs of texts, for a model of pairs", "文本对（文本对任务）"],
  choices: ["contexts with two or more alternatives each, for a model of choices", "上文及两个以上的选项（多项选择任务）"],
  passages: ["passages with a question each, for a model of spans", "篇章和问题（阅读理解任务）"],
  position: ["which token of the sentence, from 0", "句中第几个词，从 0 起"],
  prefix: ["beginning of the words", "词的开头"],
  query: ["what to look for", "要找的内容"],
  right: ["words to the right", "右侧窗口的词数"],
  sentence: ["a text, or the list of its words", "一个句子，或其分词列表"],
  sentences: ["sentences, or lists of their words", "若干句子，或各句的分词列表"],
  sort: ["how the hits are sorted", "排序方式"],
  text: ["a text", "文本"],
  texts: ["texts, or lists of their words", "若干文本，或其分词列表"],
  topn: ["how many", "个数"],
  word: ["the word", "词"],
};

// What the server says of a question that it cannot answer, piece by piece: its words, and ours in Chinese.
const ERRORS = [
  [/^'(.+)' has no vector among the ([\d,]+) words$/, "“$1”不在词表的 $2 个词里，没有向量"],
  [/^text is segmented as (.+)$/, (whole, parts) => `按此模型的分词为 ${parts.replaceAll(" (known)", "（已知）")}`],
  [/^close words: (.+)$/, (whole, words) => `相近的词：${words.replaceAll(", ", "、")}`],
  [/^words with fewer than (\d+) occurrences were dropped \(min_count\)$/, "出现不足 $1 次的词没有收入（min_count）"],
  [/^'(.+)' is not in the corpus(?:, where it is segmented as (.+))?$/, (whole, word, parts) => `语料里没有“${word}”${parts ? `，它被切分为 ${parts}` : ""}`],
  [/^did you mean (.+)\?$/, (whole, words) => `你要找的是不是 ${words.replaceAll(" or ", " 或 ")}？`],
  [/^'(.+)' was not indexed \(.*\)$/, "建立索引时没有收入“$1”（见 polyseme index 的 --min-count 和 --skip）"],
  [/^'(.+)' has ([\d,]+) sentences, no number ([\d,]+)$/, "“$1”有 $2 句，没有编号为 $3 的句子"],
  [/^'(.+)' has ([\d,]+) sentences, too many for '(.+)' to index on the fly: build an index to serve with (.+)$/,
    "“$1”有 $2 句，$3 无法当场读完。先用命令 $4 建好文本索引，再一并启动"],
  [/^'(.+)' was indexed with a different model or pooling than '(.+)'$/, "“$1”是用另一个模型或另一种合成方式建立的索引，不能用“$2”检索"],
  [/^this is not a regular expression: (.+)$/, (whole, why) => `正则表达式有误（${regexInChinese(why)}）`],
  [/^this regular expression takes longer than (.+) s: make it simpler$/, "这个正则表达式耗时超过 $1 秒，请写得简单些"],
  [/^the corpus has no tags to choose by$/, "这份语料没有词性标记"],
  [/^the query is empty$/, "查询是空的"],
  [/^too many wrong tokens from this address: try again in (\d+) s$/, "错误的令牌太多，请 $1 秒后再试"],
  [/^the index has layer (.+), not (\d+) \(.*\)$/, "索引只存有第 $1 层，没有第 $2 层（polyseme index --layers all 会保存全部各层）"],
  [/^(\w+(?:\.\w+)*): at most ([\d,]+) characters; this has (.+)$/, "太长了：最多 $2 个字符，现在有 $3 个"],
  [/^the sentence has (\d+) words: (\d+) at most$/, "句子有 $1 个词，最多 $2 个"],
  [/^(.+) has layers 1 to (\d+), each with heads 1 to (\d+)$/, "模型有第 1 到 $2 层，每层有第 1 到 $3 个注意力头"],
  [/^one request takes at most ([\d,]+) characters: send several$/, "一次最多 $1 个字符，请分几次"],
  [/^nothing is loaded under the name '(.+)'.*$/, "没有加载名为“$1”的模型、索引或语料"],
];

const REGEX = [[/^missing (\S+)/, "缺少 $1"], [/^unbalanced parenthesis/, "括号不成对"], [/^nothing to repeat/, "前面没有可重复的内容"],
  [/^multiple repeat/, "重复符号连用"], [/^bad escape/, "转义有误"], [/^unterminated character set/, "方括号没有闭合"],
  [/^bad character range/, "字符范围有误"], [/^min repeat greater than max repeat/, "重复次数的下限大于上限"],
  [/^(unknown|invalid) group( reference)?/, "没有这个分组"], [/^unknown property/, "没有这种字符属性"],
  [/^[a-z].*?(?= at position|$)/, "写法有误"], [/ ?at position (\d+)$/, "，位置 $1"]];
const regexInChinese = (why) => REGEX.reduce((text, known) => text.replace(...known), why);

// The whole message in Chinese; nothing where a piece of it is not known.
export function errorInChinese(message) {
  const told = (piece) => ERRORS.filter(([pattern]) => pattern.test(piece)).map((known) => piece.replace(...known))[0];
  const pieces = message.split("; ").map(told);
  const whole = pieces.every(Boolean) ? pieces.join("；") : told(message);
  return whole && `${whole}。`.replace("？。", "？");
}

export const nameMeaning = (name, language) => NAMES[name]?.[language === "zh" ? 1 : 0] ?? "";
export const callInChinese = (call, english) => CALLS[call] ?? english;
export const fieldInChinese = (english) => FIELDS[english] ?? english;
