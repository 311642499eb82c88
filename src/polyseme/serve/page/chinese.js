// What the server says of its calls in English only, in Chinese.

const CALLS = {
  "GET /api/library": "已加载的内容。",
  "GET /api/library/{name}": "一个模型、索引或语料的说明卡。",
  "GET /api/library/{name}/curve": "训练过程的记录（training.jsonl）。",
  "GET /api/words": "词表，常用词在前；prefix 只列以它开头的词。",
  "GET /api/neighbours": "与一个词最相近的词及余弦。",
  "GET /api/graph": "一个词、它的近邻词，以及它们之间的相似度。",
  "GET /api/analogy": "a 之于 b，如同 c 之于……",
  "GET /api/map": "平面上的常用词；t-SNE 在后台计算，state 为 computing 时请稍后再问。",
  "POST /api/encode/tokens": "每个词、每一层各一个向量。",
  "POST /api/encode/texts": "每段文本一个向量。",
  "GET /api/tokens": "按模型所用文本的方式分词。",
  "POST /v1/embeddings": "与 OpenAI 的接口相同。",
  "GET /v1/models": "与 OpenAI 的接口相同：可用的模型。",
  "GET /api/senses": "一个词的各种用法：各处用例的聚类、比例、典型句和可替换的词。",
  "GET /api/uses": "一种用法的全部出处，可排序，附前后句和来源。",
  "POST /api/same-sense": "与句中某词用法相同的出处，以及模型在该处预期的词。",
  "GET /api/concordance": "字符串、正则表达式或词语的上下文、频次与分布。",
  "GET /api/collocates": "常与之同现的词及其关联强度。",
  "GET /api/search": "一个词或几个相连的词所在的句子。",
  "POST /api/search": "与问题最相近的文本。",
  "GET /api/sentence": "语料中的一个句子：原文与分词。",
  "POST /api/predict": "任务模型对文本的回答。",
  "POST /api/attention": "句中每个词对其他各词的注意力，Transformer 的一层一头。",
};

const FIELDS = {
  "a model, an index or a corpus": "模型、索引或语料",
  "also how much each word counted, where the head says so": "同时给出每个词的权重（任务头支持时）",
  "how many": "个数",
  "its number; all of them if it is not given": "用法的编号；不给则为全部",
  "name of a corpus or an index": "语料或索引的名称",
  "name of a loaded index": "已加载索引的名称",
  "name of a loaded model": "已加载模型的名称",
  "name of a loaded model, index or corpus": "已加载模型、索引或语料的名称",
  "neighbouring texts shown": "显示的相邻文本数",
  "of the first word: n, or n*": "第一个词的标记：n 或 n*",
  "the most frequent words": "最常用的词数",
  "what the query is": "查询的类型",
};

export const callInChinese = (call, english) => CALLS[call] ?? english;
export const fieldInChinese = (english) => FIELDS[english] ?? english;
