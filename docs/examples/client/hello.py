from openai import OpenAI  # pip install openai

client = OpenAI()  # reads OPENAI_BASE_URL and OPENAI_API_KEY
question = "In one sentence, what is the capital of France?"
answer = client.chat.completions.create(
    model="HuggingFaceTB/SmolLM2-135M-Instruct",
    messages=[{"role": "user", "content": question}],
    max_tokens=256,
    temperature=0,
)
print(answer.choices[0].message.content)
