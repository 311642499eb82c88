// What the server says in English only, in Chinese: its calls, and the options of the methods.

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
};

const OPTIONS = {
  dim: "向量的维数", window: "左右各看多少词", epochs: "通读文本的遍数", lr: "学习率", min_count: "出现次数少于此数的词不学",
  max_size: "词表的最大词数", negative: "每个正例配多少负例", sample: "高频词的抽样阈值", threads: "使用的核数（只影响速度）", seed: "随机种子",
  minutes: "训练多少分钟后停止；0 为不限", size: "预设的规模", dropout: "训练时随机舍去的比例", batch_size: "每步的样本数", optimizer: "优化方法",
  schedule: "学习率的变化方式", warmup: "学习率上升的步数", clip_norm: "梯度范数的上限", weight_decay: "权重衰减", device: "在何处计算",
  architecture: "模型结构", loss: "损失函数", vectors: "保留哪一组向量", min_n: "子词的最短长度", max_n: "子词的最长长度", buckets: "子词散列的桶数",
  n_layers: "层数", n_heads: "注意力头数", inner: "前馈层的宽度", length: "训练样本的长度", hold_out: "留作检验的文本比例", patience: "多少次检验无进步后停止",
  masking: "一起掩盖的单位", mask_share: "掩盖的比例", tokenizer: "沿用其词片的模型", pieces: "词片向量如何合成词向量", weighting: "加权方式", power: "幂次",
  shift: "PPMI 的平移量", normalise: "是否归一化", pool: "如何合成一个向量", layers: "使用哪些层", momentum: "动量", decay: "衰减系数",
  accumulate: "累积多少批再更新", x_max: "共现次数的截断值", alpha: "加权指数", hidden: "隐层宽度", filters: "卷积核个数", widths: "卷积核宽度",
  units: "单元数", cell: "循环单元的种类", projection: "投影维数", tie: "输入与输出共享权重", precision: "数值精度", states: "用什么状态代表一处",
  skip: "不收入索引的词", encoder: "所用编码器", encoder_mode: "编码器冻结还是微调", head: "编码器之上的网络", held_out: "留作检验的样本比例",
};

export const callInChinese = (call, english) => CALLS[call] ?? english;
export const optionInChinese = (name, english) => OPTIONS[name] ?? english;
