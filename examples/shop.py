"""A small shop on FastAPI: look a product up, search by words, find what is similar. Run: uvicorn shop:app"""

import numpy as np
from fastapi import FastAPI

random = np.random.default_rng(0)
colours = ["red", "blue", "green", "black", "white"]
things = ["chair", "table", "lamp", "shelf", "carpet"]
names = [f"{colours[i % 5]} {things[i // 5 % 5]} No. {i}" for i in range(20_000)]
features = random.standard_normal((len(names), 64))
app = FastAPI()


@app.get("/product/{number}")
def product(number: int):
    return {"number": number, "name": names[number]}


@app.get("/search/{words}")
def search(words: str):
    wanted = set(words.lower().split())
    found = [number for number, name in enumerate(names) if wanted <= set(name.lower().split())]
    return {"found": len(found), "first": [product(number) for number in found[:10]]}


def unit_vectors():
    return features / np.linalg.norm(features, axis=1, keepdims=True)


@app.get("/similar/{number}")
def similar(number: int):
    vectors = unit_vectors()
    closeness = vectors @ vectors[number]
    return [product(int(other)) for other in np.argsort(closeness)[-2:-7:-1]]
