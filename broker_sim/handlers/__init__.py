"""From Kafka's requests to the parts that answer them, and back."""
