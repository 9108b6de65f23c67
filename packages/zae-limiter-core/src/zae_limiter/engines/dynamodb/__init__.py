"""DynamoDB: operations as its requests, its answers, and the clients that send them."""
