// What the page says, in both languages: key → [English, Chinese].

const STRINGS = {
  skip: ["Skip to content", "跳到正文"],
  tagline: ["one word, many meanings", "一词多义"],
  theme: ["Light or dark", "明暗"],
  language: ["中文", "English"],
  views: ["Views", "视图"],

  neighbours: ["Neighbours", "近义词"],
  sentence: ["In context", "语境"],
  senses: ["Senses", "义项"],
  analogy: ["Analogy", "类比"],
  map: ["Map", "词图"],
  predict: ["Predict", "预测"],
  curves: ["Training", "训练"],
  models: ["Models", "模型"],

  word: ["Word", "词"],
  wordHint: ["a word …", "输入一个词……"],
  model: ["Model", "模型"],
  modelsChoice: ["Models, up to three", "模型（至多三个）"],
  show: ["Show", "查看"],
  list: ["List", "列表"],
  graph: ["Graph", "关系图"],
  shape: ["Shape", "形式"],
  tryOne: ["For example", "例如"],
  walkHint: ["Click a word to walk on; the back button walks back.", "点击词语继续漫游，浏览器的“后退”即可返回。"],
  graphOf: ["Graph of the words near {0} in {1}", "{1} 中“{0}”附近词语的关系图"],
  nothing: ["Nothing found.", "没有找到。"],
  noAnswer: ["No answer", "没有结果"],
  loading: ["Looking …", "查询中……"],

  index: ["Index", "索引"],
  sentenceLabel: ["Sentence", "句子"],
  sentenceHint: ["a sentence; then click one of its words", "输入一个句子，再点击其中的词"],
  cut: ["Cut into words", "分词"],
  layer: ["Layer", "层"],
  oneLayer: ["This index keeps one layer; polyseme index --layers all keeps every one.", "此索引只存一层；polyseme index --layers all 会保存全部各层。"],
  anyWord: ["other words too", "包括其他词"],
  pickWord: ["Click a word to find where it means the same.", "点击一个词，查找它意思相同的出处。"],
  sameSense: ["Where {0} means the same", "与此处“{0}”同义的句子"],
  staticAnswer: ["What a static model says of {0}", "静态模型眼中的“{0}”"],
  staticNote: ["One vector per word: every meaning at once, whatever the sentence.", "一词一个向量：不论句子，所有意思混在一起。"],
  contextNote: ["One vector per occurrence: the meaning it has in this sentence.", "每次出现一个向量：只取它在此句中的意思。"],

  sensesOf: ["Senses of {0}", "{0} 的义项"],
  occurrences: ["{0} occurrences", "出现 {0} 次"],
  oneSense: ["one sense", "一个义项"],
  manySenses: ["{0} senses", "{0} 个义项"],
  sense: ["Sense {0}", "义项 {0}"],
  company: ["stands with", "常与之同现"],
  substitutes: ["could be replaced by", "可替换为"],
  mapHelp: ["Each point is one occurrence. Wheel or + − to zoom, drag or arrows to move, 0 to reset.",
    "每个点是一次出现。滚轮或 + − 缩放，拖动或方向键平移，0 复位。"],
  sensesMap: ["Map of the occurrences of {0}, coloured by sense", "“{0}”各次出现的分布图，按义项着色"],

  analogyForm: ["{0} is to {1} as {2} is to …", "{0} 之于 {1}，如同 {2} 之于……"],
  isTo: ["is to", "之于"],
  as: ["as", "如同"],
  what: ["?", "？"],
  ask: ["Ask", "求解"],

  mapOf: ["Map of the {0} most frequent words of {1}", "{1} 中最常用的 {0} 个词"],
  mapMethod: ["Projection", "投影"],
  mapSize: ["Words", "词数"],
  findWord: ["Find a word", "找词"],
  notOnMap: ["{0} is not among these words", "这些词里没有“{0}”"],
  mapFailed: ["t-SNE cannot be computed ({0}). This is PCA:", "无法计算 t-SNE（{0}）。以下是 PCA："],
  computing: ["t-SNE is being computed, once; the answer is kept. Meanwhile, PCA:", "正在计算 t-SNE（只需一次，结果会保存）。先看 PCA："],
  mapKeys: ["Wheel or + − to zoom, drag or arrows to move, 0 to reset; click a word for its neighbours.",
    "滚轮或 + − 缩放，拖动或方向键平移，0 复位；点击词语看它的近义词。"],

  run: ["Predict", "预测"],
  field_text: ["Text", "文本"],
  field_first: ["First text", "文本一"],
  field_second: ["Second text", "文本二"],
  field_passage: ["Passage", "篇章"],
  field_question: ["Question", "问题"],
  ask_classify: ["Type a text to see its labels.", "输入一段文本，查看各类别的概率。"],
  ask_pair: ["Type two texts to compare them.", "输入两段文本进行比较。"],
  ask_tag: ["Type a sentence to see what is marked in it.", "输入一个句子，查看其中标注的内容。"],
  ask_span: ["Type a passage and a question on it.", "输入一段文章和一个问题，在文中找答案。"],
  attention: ["What counted", "注意力"],
  pairScore: ["Score", "得分"],
  noEntities: ["Nothing is marked.", "没有标注出任何内容。"],
  noAnswerHere: ["The passage has no answer.", "文中没有答案。"],

  curvesOf: ["How training went", "训练过程"],
  by: ["by {0}", "横轴：{0}"],

  loaded: ["What is loaded", "已加载"],
  kind_words: ["word vectors", "词向量"],
  kind_contexts: ["contextual encoder", "语境编码器"],
  kind_sentences: ["sentence encoder", "句编码器"],
  kind_task: ["model of a task", "任务模型"],
  kind_index: ["index of occurrences", "出处索引"],
  kind_corpus: ["corpus", "语料"],
  facts: ["Facts", "概况"],
  fact_method: ["method", "方法"],
  fact_task: ["task", "任务"],
  fact_head: ["head", "任务头"],
  fact_labels: ["labels", "类别"],
  fact_dim: ["length of a vector", "维数"],
  fact_layers: ["layers", "层"],
  fact_layer: ["layer asked by default", "默认层"],
  fact_words: ["words", "词数"],
  fact_occurrences: ["occurrences", "出现次数"],
  fact_tokens: ["running words", "总词次"],
  fact_sentences: ["sentences", "句子"],
  fact_paragraphs: ["paragraphs", "段落"],
  fact_documents: ["documents", "篇数"],
  fact_segmentation: ["segmentation", "分词"],
  fact_states: ["states", "所用状态"],
  fact_precision: ["precision", "精度"],
  fact_search: ["search", "检索"],
  fact_recall: ["recall", "召回率"],
  text: ["Text it was made from", "所用文本"],
  options: ["Options", "参数"],
  option: ["option", "参数"],
  value: ["value", "值"],
  meaning: ["meaning", "含义"],
  calls: ["Use it", "使用"],
  copy: ["Copy", "复制"],
  copied: ["Copied", "已复制"],
  commandLine: ["Command line", "命令行"],
  paper: ["Paper", "论文"],
  api: ["API description", "API 说明"],

  emptyWords: ["No word vectors are loaded. Train some on your own text, and serve them:",
    "尚未加载词向量。用自己的文本训练并启动："],
  emptyIndex: ["No index of occurrences is loaded. Make one of a contextual model and a corpus, and serve it:",
    "尚未加载出处索引。用语境模型和语料建立索引并启动："],
  emptyTask: ["No model of a task is loaded. Fit one to labelled examples, and serve it:",
    "尚未加载任务模型。用标注数据训练一个并启动："],
  emptyCurve: ["None of the loaded models kept a training curve. Models trained here do:",
    "已加载的模型都没有训练曲线。在本机训练的模型会有："],
  emptyAll: ["Nothing is loaded.", "什么也没有加载。"],
  staticMissing: ["Serve word vectors beside the index to see what a static model answers:",
    "同时加载词向量，即可对照静态模型的回答："],
  failed: ["That did not work", "出错了"],
  unreachable: ["The server does not answer. Is it still running?", "服务器没有响应，它还在运行吗？"],
  tokenWanted: ["This server wants a token", "此服务器需要令牌"],
  tokenHint: ["It was printed when the server was started.", "启动服务器时已显示。"],
  token: ["Token", "令牌"],
  enter: ["Enter", "进入"],
  wrongPage: ["There is no such view.", "没有这个视图。"],
};

export const LANGUAGES = ["en", "zh"];
let language = "en";

export function setLanguage(code) {
  language = LANGUAGES.includes(code) ? code : "en";
  document.documentElement.lang = language === "zh" ? "zh-Hans" : "en";
  return language;
}

export const getLanguage = () => language;

// A fact without a string of its own is shown by the name that is given for it.
export function t(key, ...values) {
  const text = (STRINGS[key] ?? [values[0] ?? key, values[0] ?? key])[LANGUAGES.indexOf(language)];
  return values.reduce((line, value, i) => line.replaceAll(`{${i}}`, String(value)), text);
}

export const number = (value, digits = 0) =>
  Number(value).toLocaleString(language === "zh" ? "zh-CN" : "en-GB", { maximumFractionDigits: digits });
