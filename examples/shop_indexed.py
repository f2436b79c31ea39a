"""The shop of shop.py, which prepares once what each request needs. Run: uvicorn shop_indexed:app"""

import numpy as np
from fastapi import FastAPI

random = np.random.default_rng(0)
colours = ["red", "blue", "green", "black", "white"]
things = ["chair", "table", "lamp", "shelf", "carpet"]
names = [f"{colours[i % 5]} {things[i // 5 % 5]} No. {i}" for i in range(20_000)]
features = random.standard_normal((len(names), 64))
unit = features / np.linalg.norm(features, axis=1, keepdims=True)
numbers = {}
for number, name in enumerate(names):
    for word in name.lower().split():
        numbers.setdefault(word, set()).add(number)
app = FastAPI()


@app.get("/product/{number}")
def product(number: int):
    return {"number": number, "name": names[number]}


@app.get("/search/{words}")
def search(words: str):
    found = sorted(set.intersection(*(numbers.get(word, set()) for word in words.lower().split())))
    return {"found": len(found), "first": [product(number) for number in found[:10]]}


@app.get("/similar/{number}")
def similar(number: int):
    closeness = unit @ unit[number]
    return [product(int(other)) for other in np.argsort(closeness)[-2:-7:-1]]
