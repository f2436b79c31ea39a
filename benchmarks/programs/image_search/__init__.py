"""What an image search is made of: images from a seed, their segments' features, the database and the ranking."""
